"""A pretrained model on a task that nobody here wrote: a few steps, then its replies scored by the task's own verifier."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import linked_home, tuneloop
from tuneloop.core.files import read_json
from tuneloop.core.settings import Settings
from tuneloop.tools.engines import Engine, ensure_engine

CONFIG = {
    "sft.yaml": "finetuning_type: lora\nmax_steps: 3\nmax_samples: 12\nper_device_train_batch_size: 4\ncutoff_len: 256\n",
    "eval.yaml": "max_tokens: 12\nsample_limit: 8\ntemperature: 0.0\n",
}


def test_a_few_steps_and_replies_on_a_task_of_reasoning_gym(
    tmp_path: Path, smollm2: Path, shared_settings: Settings, llamafactory: Engine, opencompass: Engine
) -> None:
    ensure_engine("reasoning_gym", shared_settings)
    home = linked_home(tmp_path / "home")
    (tmp_path / "configs").mkdir()
    for name, text in CONFIG.items():
        (tmp_path / "configs" / name).write_text(text)
    words = ("--task", "rg:chain_sum?min_terms=2&max_terms=2&max_digits=2", "--base-model", "smollm2")
    tuneloop(home, "matrix", *words, "--experiments", "sft_chat_template", "--config", "configs")
    (root,) = (tmp_path / "results").iterdir()
    assert (root / "models" / "sft_chat_template" / "adapter_config.json").is_file()
    chat = read_json(root / "eval" / "sft_chat_template_eval_chat" / "summary.json")
    assert (chat["n"], chat["trained"]["training"]["steps"]) == (8, 3)
    spent, forecast = (chat["trained"]["training"][name]["memory"] for name in ("spent", "forecast"))
    assert abs(forecast / spent - 1) <= 0.15, "the smoke run's forecast"
