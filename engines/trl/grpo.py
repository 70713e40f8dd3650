"""Train with GRPO by TRL: `PYTHONPATH=../llamafactory:../opencompass python grpo.py JOB.json` in the engine.

JOB.json: model (folder), adapter (folder of the adapter that training goes on with, or ""), lora ({} for all weights, or
LoRA's options for a new adapter), rows (JSON Lines with `prompt`), chat (whether prompts stand in the chat template), options
(arguments of the template), longest (tokens of a prompt: longer ones are left out), exchange (folder in which replies are
handed to whoever scores them), seconds (to wait for scores), args (of TRL's GRPOConfig, with output_dir).

Right answers are nowhere in here: `engines/answers/serve_rewards.py` has them. A training goes on from its newest whole
checkpoint. SIGTERM saves where the steps at hand are done and ends with status 75: unfinished.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from lf_checkpoints import STATE, is_done, newest_whole, prove_finished
from lf_processes import run_together
from lf_watch import LOGGED, STOP, CheckpointCallback
from oc_template import render
from peft import LoraConfig, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

LOOK = 0.01  # seconds between two looks for scores
RESUME = "TUNELOOP_RESUME"  # the checkpoint that is gone on from, or ""
OVER = "over"  # a file of this name in the exchange: whoever scores may end
GRPO = {
    "reward": "reward",
    "kl": "kl",
    "entropy": "entropy",
    "completions/mean_length": "length",
    "completions/clipped_ratio": "clipped",
    "frac_reward_zero_std": "alike",
}


class Prompts:
    """The rows' prompts as the evaluation asks them: text, and the very tokens."""

    def __init__(self, job: dict[str, Any], tokenizer: Any) -> None:
        self.ids: dict[str, list[int]] = {}
        self.rows: list[dict[str, Any]] = []
        # Not splitlines: a prompt may hold U+2028, U+2029 or U+0085, which JSON writes as they are.
        lines = Path(job["rows"]).read_text(encoding="utf-8").removesuffix("\n").split("\n")
        for place, line in enumerate(lines):
            text, ids = self.asked(json.loads(line)["prompt"], job, tokenizer)
            if len(ids) <= job["longest"]:
                self.ids[text] = ids
                self.rows.append({"prompt": text, "row": place})
        print(json.dumps({"prompts": len(self.rows), "too_long": len(lines) - len(self.rows)}), flush=True)
        if not self.rows:
            sys.exit(f"error: no prompt has at most {job['longest']} tokens; right is a larger max_prompt_length")

    @staticmethod
    def asked(prompt: str, job: dict[str, Any], tokenizer: Any) -> tuple[str, list[int]]:
        """A prompt as `engines/opencompass/oc_models.py` asks it."""
        if not job["chat"]:
            return prompt, tokenizer(prompt, add_special_tokens=True)["input_ids"]
        (text,) = render(tokenizer, [[{"role": "user", "content": prompt}]], job["options"])
        return text, tokenizer(text, add_special_tokens=False)["input_ids"]


class Rewards:
    """Hands replies over as files named by their content, and waits for their scores: asked again, it finds them."""

    __name__ = "score"

    def __init__(self, exchange: Path, seconds: float) -> None:
        self.exchange, self.seconds = exchange, seconds

    def __call__(self, completions: list[str], row: list[int], **_: Any) -> list[float]:
        """What each reply is worth, from 0 to 1."""
        text = json.dumps([{"row": place, "reply": reply} for place, reply in zip(row, completions, strict=True)])
        name = hashlib.sha256(f"{os.environ.get('RANK', '0')} {text}".encode()).hexdigest()[:32]
        part, ask, told = (self.exchange / f"{name}.{end}" for end in ("part", "ask", "told"))
        part.write_text(text)
        part.replace(ask)
        end = time.monotonic() + self.seconds
        while not told.exists():
            if time.monotonic() > end:
                sys.exit(f"error: nobody scored {len(row)} replies within {self.seconds:.0f} s")
            time.sleep(LOOK)
        found = json.loads(told.read_text())
        ask.unlink()
        told.unlink()
        return [float(value) for value in found]


class Trainer(GRPOTrainer):
    """TRL's trainer on prompts whose tokens are known."""

    def __init__(self, prompts: Prompts, **kwargs: Any) -> None:
        self.known = prompts.ids
        super().__init__(train_dataset=Dataset.from_list(prompts.rows), **kwargs)
        per_step = self.args.gradient_accumulation_steps
        period = max(1, self.args.steps_per_generation * self.args.num_iterations // per_step)
        # Between these TRL holds replies in memory that no checkpoint has.
        self.add_callback(CheckpointCallback(self, {**LOGGED, **GRPO}, period))

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Without the copy of the first adapter: it is made anew, and beside it transformers does not load the trained one."""
        super()._save(output_dir, state_dict)
        shutil.rmtree(Path(output_dir or self.args.output_dir) / "ref", ignore_errors=True)

    def _tokenize_prompts(self, prompts: list[str]) -> Any:
        """Their tokens, and nothing of images."""
        return [list(self.known[text]) for text in prompts], None, {}


def make_trainer(job: dict[str, Any]) -> Trainer:
    """Model, adapter and trainer."""
    args = GRPOConfig(**job["args"])
    dtype = torch.bfloat16 if args.bf16 else torch.float32
    model = AutoModelForCausalLM.from_pretrained(job["model"], dtype=dtype, trust_remote_code=False)
    tokenizer = AutoTokenizer.from_pretrained(job["model"], trust_remote_code=False, padding_side="left")
    if job["adapter"]:
        model = PeftModel.from_pretrained(model, job["adapter"], is_trainable=True)
    return Trainer(
        Prompts(job, tokenizer),
        model=model,
        reward_funcs=Rewards(Path(job["exchange"]), job["seconds"]),
        args=args,
        processing_class=tokenizer,
        peft_config=LoraConfig(task_type="CAUSAL_LM", **job["lora"]) if job["lora"] else None,
    )


def main(file: Path) -> None:
    """Begin, go on, or see that everything is done."""
    torch.set_num_threads(int(os.environ.get("TUNELOOP_JOB_THREADS", torch.get_num_threads())))
    job = json.loads(file.read_text(encoding="utf-8"))
    out = Path(job["args"]["output_dir"])
    if RESUME not in os.environ:
        if is_done(out):
            return
        os.environ[RESUME] = str(newest_whole(out) or "")
        count = torch.cuda.device_count()
        if count > 1:  # one process each: several in one would be copies that cannot draw replies
            run_together([__file__, str(file)], count, (Path(job["exchange"]) / OVER).touch)
    STOP.listen()
    try:
        trainer = make_trainer(job)
        trainer.train(resume_from_checkpoint=os.environ[RESUME] or None)
    finally:
        (Path(job["exchange"]) / OVER).touch()
    trainer.save_model()
    if os.environ.get("RANK", "0") == "0":
        trainer.state.save_to_json(str(out / STATE))
        prove_finished(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
