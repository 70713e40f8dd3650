import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.config_text import parse_config
from tuneloop.tools.config.finalize import DECIDED, MICRO, finalize_config, planned_steps, write_dataset_info

ASKED = (
    "learning_rate: 1e-4\nseed: 7\noutput_dir: /etc\nreport_to: wandb\ntrust_remote_code: true\nsave_strategy: 'no'\n"
)


def made(text: str = ASKED, *, device: str = "cpu", steps: int | None = None) -> dict[str, object]:
    places = {"model": Path("/m"), "data": Path("/d"), "output": Path("/o")}
    asked = parse_config(text).values
    return dict(parse_config(finalize_config(asked, **places, seed=3, device=device, steps_override=steps)).values)


def test_the_run_decides() -> None:
    values = made()
    assert values["learning_rate"] == 1e-4
    assert (values["model_name_or_path"], values["dataset_dir"], values["output_dir"]) == ("/m", "/d", "/o")
    assert (values["seed"], values["data_seed"], values["dataset"]) == (3, 3, "train")
    assert (values["report_to"], values["trust_remote_code"], values["save_strategy"]) == ("none", False, "steps")
    assert values["finetuning_type"] == "lora"
    assert list(values) == sorted(values)


def test_the_device() -> None:
    assert (made()["use_cpu"], made()["dataloader_pin_memory"]) == (True, False)
    assert made(device="cuda")["use_cpu"] is False
    assert "dataloader_pin_memory" not in made(device="cuda")


def test_a_micro_run_keeps_the_recipe_and_little_else() -> None:
    asked = "val_size: 0.1\neval_strategy: steps\nload_best_model_at_end: true\nwarmup_ratio: 0.5\nmax_steps: 900\n"
    values = made(asked + "learning_rate: 0.01\nearly_stopping_steps: 2\nmetric_for_best_model: eval_loss", steps=4)
    assert (values["max_steps"], values["logging_steps"], values["save_strategy"]) == (4, 1, "no")
    assert values["learning_rate"] == 0.01
    assert not {"warmup_ratio", "early_stopping_steps", "eval_steps"} & set(values)
    assert (values["val_size"], values["load_best_model_at_end"]) == (0.0, False)


@pytest.mark.parametrize(
    ("asked", "every"), [("eval_strategy: steps\neval_steps: 30", 30), ("eval_strategy: steps", 0.2)]
)
def test_the_best_checkpoint_is_saved_where_it_is_measured(asked: str, every: float) -> None:
    values = made(f"val_size: 0.1\nload_best_model_at_end: true\n{asked}")
    assert (values["save_strategy"], values["save_steps"], values["eval_steps"]) == ("steps", every, every)
    assert made("val_size: 0.1\nload_best_model_at_end: true\neval_strategy: epoch")["save_strategy"] == "epoch"


def test_forced_keys_exist_in_the_release(catalog: Catalog) -> None:
    assert set(DECIDED) | set(MICRO) | set(made()) <= set(catalog.parameters)


def test_dataset_info(tmp_path: Path) -> None:
    write_dataset_info(tmp_path)
    info = json.loads((tmp_path / "dataset_info.json").read_text())
    assert info["train"]["file_name"] == "data.json"
    assert info["train"]["columns"] == {"prompt": "instruction", "query": "input", "response": "output"}


@pytest.mark.parametrize(
    ("config", "rows", "steps"),
    [
        ({"max_steps": 50}, 1000, 50),
        ({"num_train_epochs": 2, "per_device_train_batch_size": 8}, 100, 26),
        ({"num_train_epochs": 1, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 4}, 100, 4),
        ({"per_device_train_batch_size": 8, "dataloader_drop_last": True, "num_train_epochs": 1}, 100, 12),
        ({"per_device_train_batch_size": 10, "val_size": 0.1, "num_train_epochs": 1}, 100, 9),
        ({"per_device_train_batch_size": 10, "val_size": 40, "num_train_epochs": 1}, 100, 6),
        ({"per_device_train_batch_size": 10, "max_samples": 20, "num_train_epochs": 0.5}, 100, 1),
        ({"per_device_train_batch_size": 8, "num_train_epochs": 3}, 2, 3),
        ({}, 16, 6),
    ],
)
def test_planned_steps(config: dict[str, object], rows: int, steps: int) -> None:
    assert planned_steps(config, rows) == steps


@given(st.integers(1, 10_000), st.integers(1, 64), st.integers(1, 8), st.integers(1, 5))
def test_planned_steps_cover_every_row(rows: int, batch: int, accumulate: int, epochs: int) -> None:
    config = {
        "num_train_epochs": epochs,
        "per_device_train_batch_size": batch,
        "gradient_accumulation_steps": accumulate,
    }
    steps = planned_steps(config, rows)
    assert rows * epochs <= steps * batch * accumulate < (rows + 2 * batch * accumulate) * epochs
