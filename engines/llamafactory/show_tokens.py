"""Tokens of rows as LLaMA-Factory trains on them, and prompts as the evaluation asks them: `python show_tokens.py JOB.json`.

JOB.json: model (folder), out (file), options (arguments of the chat template), cases [{name, config (a training's values),
instruction, output, prompt (what the evaluation asks)}]. Writes `out`, a list with one object a case: name, tokens
[[id, text, whether it carries loss]], chat (ids of the prompt in the chat template, null where there is none), raw (ids of
the prompt as it is).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from llamafactory.data.processor import SupervisedDatasetProcessor
from llamafactory.data.template import get_template_and_fix_tokenizer
from llamafactory.extras.constants import IGNORE_INDEX
from llamafactory.hparams import get_train_args
from llamafactory.model import load_tokenizer
from transformers import AutoTokenizer


def trained(case: dict[str, Any]) -> list[list[Any]]:
    """Id, text and loss of every token of the row, by the engine's own code."""
    model_args, data_args, *_ = get_train_args(dict(case["config"]))
    module = load_tokenizer(model_args)
    tokenizer = module["tokenizer"]
    template = get_template_and_fix_tokenizer(tokenizer, data_args)
    encoder = SupervisedDatasetProcessor(template, tokenizer, module["processor"], data_args)
    ids, labels = encoder._encode_data_example(
        prompt=[{"role": "user", "content": case["instruction"]}],
        response=[{"role": "assistant", "content": case["output"]}],
        system=None,
        tools=None,
        images=[],
        videos=[],
        audios=[],
    )
    return [[i, tokenizer.decode([i]), label != IGNORE_INDEX] for i, label in zip(ids, labels, strict=True)]


def asked(tokenizer: Any, prompt: str, options: dict[str, Any]) -> dict[str, Any]:
    """The evaluated prompt's ids, made as `engines/opencompass/oc_models.py` makes them."""
    chat = None
    if tokenizer.chat_template:
        turn = [{"role": "user", "content": prompt}]
        text = tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False, **options)
        chat = tokenizer(text, add_special_tokens=False)["input_ids"]
    return {"chat": chat, "raw": tokenizer(prompt, add_special_tokens=True)["input_ids"]}


def main(job_file: Path) -> None:
    """Write what every case's tokens are."""
    job = json.loads(job_file.read_text())
    found = []
    for case in job["cases"]:
        own = AutoTokenizer.from_pretrained(
            job["model"], trust_remote_code=False
        )  # as it is, before a training mends it
        found.append({"name": case["name"], "tokens": trained(case), **asked(own, case["prompt"], job["options"])})
    Path(job["out"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
