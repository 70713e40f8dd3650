"""The training jobs that runs start, without their sandbox, for `gpu.py`: LLaMA-Factory's and GRPO's."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from gpu_training import Training, make_model

ROOT = Path(__file__).resolve().parent.parent
TINY = ROOT / "tools" / "embedded" / "tiny_model"


def write_rows(folder: Path, rows: list[dict[str, str]]) -> None:
    """A data set named `rows`, as LLaMA-Factory reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.json").write_text(json.dumps(rows))
    (folder / "dataset_info.json").write_text(json.dumps({"rows": {"file_name": "rows.json"}}))


def start_training(config: Path, asked: dict[str, Any]) -> subprocess.Popen[bytes]:
    """The training job that a run would start, without its sandbox; what it says goes beside the config."""
    always = {
        "stage": "sft", "do_train": True, "bf16": True, "dataset": "rows", "template": "qwen", "report_to": "none",
        "logging_steps": 1, "lr_scheduler_type": "constant", "seed": 1,
    }  # fmt: skip
    config.write_text(json.dumps(always | asked))
    env = {**os.environ, "DISABLE_VERSION_CHECK": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "0"}
    argv = [sys.executable, str(ROOT / "engines/llamafactory/train.py"), "train", str(config)]
    with config.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(argv, env=env, stdout=log, stderr=log)


def finished(config: Path, running: subprocess.Popen[bytes]) -> None:
    """Wait. Raises ValueError with its last words where it failed."""
    if running.wait():
        raise ValueError(config.with_suffix(".log").read_text(errors="replace")[-400:])


def told_losses(out: Path) -> list[float]:
    """The loss of each step. Raises ValueError where it did not fall."""
    log = [json.loads(line) for line in (out / "trainer_log.jsonl").read_text().splitlines()]
    told = [line["loss"] for line in log if "loss" in line]
    if len(told) < 2 or told[-1] >= told[0]:
        raise ValueError(f"the loss does not fall: {told}")
    return told


def killed_training() -> dict[str, Any]:
    """The embedded model by our training job in bfloat16: undisturbed, and with a SIGKILL after a checkpoint."""
    numbers = importlib.import_module("safetensors.torch")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_rows(folder, [{"instruction": f"What is {n} + 1?", "input": "", "output": str(n + 1)} for n in range(64)])
        asked = {
            "model_name_or_path": str(TINY), "finetuning_type": "full", "dataset_dir": place, "cutoff_len": 128,
            "max_steps": 40, "save_steps": 10, "per_device_train_batch_size": 8, "learning_rate": 1e-3,
        }  # fmt: skip
        whole, killed = folder / "whole", folder / "killed"
        whole.mkdir()
        killed.mkdir()
        began = time.monotonic()
        finished(folder / "a.yaml", start_training(folder / "a.yaml", {**asked, "output_dir": str(whole)}))
        seconds = time.monotonic() - began
        config, asked = folder / "b.yaml", {**asked, "output_dir": str(killed)}
        running = start_training(config, asked)
        while running.poll() is None and not list(killed.glob("checkpoint-*/trainer_state.json")):
            time.sleep(0.01)
        running.kill()
        if running.wait() == 0:
            raise ValueError("it ended before it could be killed")
        finished(config, start_training(config, asked))
        one, other = (numbers.load_file(out / "model.safetensors") for out in (whole, killed))
        apart = max(float((one[name].float() - other[name].float()).abs().max()) for name in one)
        told = told_losses(whole)
        return {
            "steps": 40, "seconds": round(seconds, 1), "first_loss": told[0], "last_loss": told[-1],
            "resumed_weights_differ_by_at_most": apart,
        }  # fmt: skip


def write_model(torch: Any, sizes: dict[str, Any], folder: Path) -> None:
    """Random weights of that shape with the embedded model's tokenizer, as a run finds a base model."""
    with torch.device("cuda"):
        model = make_model(torch, sizes)
    model.to(torch.bfloat16).save_pretrained(folder)
    for file in TINY.glob("tokenizer*"):
        shutil.copy(file, folder)
    for file in TINY.glob("chat_template*"):
        shutil.copy(file, folder)


def measured_job(torch: Any, asked: Training, **more: Any) -> dict[str, Any]:
    """Our training job on that shape: its losses, speed, and bytes of tensors at most."""
    with tempfile.TemporaryDirectory() as place:
        folder, steps = Path(place), 8
        write_model(torch, asked.sizes, folder / "model")
        words = [f"{n} + {n} = {2 * n}" for n in range(10, 1000)]
        write_rows(
            folder,
            [{"instruction": f"Row {n}", "input": "", "output": " ".join(words[n:])} for n in range(asked.batch * 4)],
        )
        given = {
            "model_name_or_path": str(folder / "model"), "finetuning_type": "full" if asked.full else "lora",
            "dataset_dir": place, "output_dir": str(folder / "out"), "cutoff_len": asked.tokens, "max_steps": steps,
            "per_device_train_batch_size": asked.batch, "learning_rate": 1e-4 if asked.full else 1e-3,
            "save_strategy": "no", **more,
        }  # fmt: skip
        (folder / "out").mkdir()
        torch.cuda.empty_cache()
        finished(folder / "train.yaml", start_training(folder / "train.yaml", given))
        cost = json.loads((folder / "out" / "cost.json").read_text())
        told = told_losses(folder / "out")
        seconds = [step[2] for step in cost["steps"][2:]]
        each = sum(seconds) / len(seconds)
        return {
            "first_loss": told[0], "last_loss": told[-1], "seconds_per_step": each,
            "tokens_per_second": cost["steps"][2][0] / each, "allocated_bytes": cost["device_memory"]["allocated"],
        }  # fmt: skip


def grpo() -> dict[str, Any]:
    """The embedded model by our GRPO job, replies drawn on the card; the more digits a reply has, the more it is worth."""
    with tempfile.TemporaryDirectory() as place:
        folder, steps = Path(place), 20
        exchange, out = folder / "exchange", folder / "out"
        exchange.mkdir()
        out.mkdir()
        (folder / "rows.jsonl").write_text(
            "".join(json.dumps({"prompt": f"What is {n} + 1?"}) + "\n" for n in range(64))
        )
        args = {
            "output_dir": str(out), "max_steps": steps, "per_device_train_batch_size": 8, "num_generations": 8,
            "max_completion_length": 32, "learning_rate": 1e-4, "bf16": True, "beta": 0.04, "logging_steps": 1,
            "report_to": "none", "save_steps": 10, "gradient_accumulation_steps": 1, "temperature": 1.0, "seed": 1,
        }  # fmt: skip
        lora = {"r": 8, "lora_alpha": 16, "target_modules": "all-linear"}
        job = {
            "model": str(TINY), "adapter": "", "lora": lora, "rows": str(folder / "rows.jsonl"), "chat": True, "options": {},
            "longest": 128, "exchange": str(exchange), "seconds": 60, "args": args,
        }  # fmt: skip
        (folder / "job.json").write_text(json.dumps(job))
        ends = threading.Event()
        scorer = threading.Thread(target=score_digits, args=(exchange, ends), daemon=True)
        scorer.start()
        paths = [str(ROOT / "engines" / one) for one in ("llamafactory", "opencompass")]
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]),
            "HF_HUB_OFFLINE": "1",
        }
        began = time.monotonic()
        argv = [sys.executable, str(ROOT / "engines/trl/grpo.py"), str(folder / "job.json")]
        done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        seconds = time.monotonic() - began
        ends.set()
        scorer.join()
        if done.returncode:
            raise ValueError(done.stdout[-400:].decode(errors="replace"))
        state = json.loads((out / "trainer_state.json").read_text())
        rewards = [line["reward"] for line in state["log_history"] if "reward" in line]
        if len(rewards) != steps:
            raise ValueError(f"{len(rewards)} rewards for {steps} steps")
        return {
            "steps": steps,
            "seconds": round(seconds, 1),
            "first_rewards": rewards[:3],
            "last_rewards": rewards[-3:],
        }


def score_digits(exchange: Path, ends: threading.Event) -> None:
    """Answer what the GRPO job asks: a reply is worth its share of digits."""
    while not ends.wait(0.01):
        for ask in exchange.glob("*.ask"):
            told = ask.with_suffix(".told")
            if told.exists():
                continue
            replies = [one["reply"] for one in json.loads(ask.read_text())]
            part = ask.with_suffix(".scored")
            part.write_text(json.dumps([sum(c.isdigit() for c in said) / max(1, len(said)) for said in replies]))
            part.replace(told)
