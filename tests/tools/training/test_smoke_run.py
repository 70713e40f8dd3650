"""What a smoke run is given, and the plan of the full run that its forecast is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tools.config.conftest import card, catalog, engine_packages  # noqa: F401
from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import SMOKE_STEPS, Forecast
from tuneloop.core.files import read_json, write_json
from tuneloop.core.job import Exit
from tuneloop.core.layout import ExperimentFolder
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.config_text import parse_config
from tuneloop.tools.config.context import ConfigContext
from tuneloop.tools.config.memory import estimate_memory, largest_batch, measured_memory, recipe_key
from tuneloop.tools.config.model_card import ModelCard
from tuneloop.tools.training.smoke_run import (
    MAX_ROWS_READ,
    smoke_run_data,
    smoke_run_forecast,
    spread_positions,
    training_plan,
    write_smoke_run_data,
)
from tuneloop.tools.training.smoke_run_rows import LONGEST


def row(n: int) -> dict[str, str]:
    return {"instruction": "a" * n, "input": "", "output": "b"}


@pytest.fixture
def folder(tmp_path: Path) -> ExperimentFolder:
    made = ExperimentFolder(tmp_path / "001")
    write_json(made.data / "data.json", [row(n) for n in range(1, 101)])
    write_json(made.data / "report.json", {"rows": 100})
    made.config.write_text("per_device_train_batch_size: 3\ngradient_accumulation_steps: 2\n")
    return made


@pytest.fixture
def case(catalog: Catalog, card: ModelCard):  # noqa: F811
    return lambda **values: ConfigContext(
        parse_config(yaml.safe_dump(values or {"stage": "sft"})), catalog, card, "cpu"
    )


def test_the_steps_come_first_then_all_rows(folder: ExperimentFolder, tmp_path: Path) -> None:
    assert write_smoke_run_data(folder, tmp_path / "none") == SMOKE_STEPS
    rows = [len(r["instruction"]) for r in read_json(smoke_run_data(folder) / "data.json")]
    assert rows[:6] == rows[6:12] == [100, 99, 98, 97, 96, 95]
    assert rows[6 * SMOKE_STEPS :] == list(range(1, 101))


def test_a_short_training_has_a_smoke_run_of_fewer_steps(folder: ExperimentFolder, tmp_path: Path) -> None:
    folder.config.write_text("max_steps: 2\nmax_samples: 50\n")
    assert write_smoke_run_data(folder, tmp_path / "none") == LONGEST + 2
    assert len(read_json(smoke_run_data(folder) / "data.json")) == 8 * (LONGEST + 2) + 50


@pytest.mark.parametrize("text", ["val_size: 100", "val_size: 500", "max_samples: 20\nval_size: 20"])
def test_what_is_held_out_leaves_rows(folder: ExperimentFolder, tmp_path: Path, text: str) -> None:
    folder.config.write_text(text + "\n")
    with pytest.raises(RecipeError, match=r"val_size: holds out .* none is left to train on") as e:
        write_smoke_run_data(folder, tmp_path / "none")
    assert e.value.culprit == "config"


def test_the_longest_is_so_by_tokens(folder: ExperimentFolder, tiny: Path) -> None:
    """Digits are a token each here, words of the task are one token: the shorter text is the longer row."""
    rows = [row(1)] * 40 + [{"instruction": "How many apples does Tom have? " * 4, "input": "", "output": ""}]
    rows += [{"instruction": "7" * 90, "input": "", "output": ""}]
    write_json(folder.data / "data.json", rows)
    folder.config.write_text("per_device_train_batch_size: 1\n")
    write_smoke_run_data(folder, tiny / "tokenizer.json")
    assert read_json(smoke_run_data(folder) / "data.json")[0]["instruction"] == "7" * 90


def test_many_rows_are_read_evenly() -> None:
    places = spread_positions(10 * MAX_ROWS_READ)
    assert len(places) == len(set(places)) == MAX_ROWS_READ and places[-1] == 10 * MAX_ROWS_READ - 10
    assert spread_positions(3) == [0, 1, 2] and spread_positions(0) == []


@pytest.mark.parametrize(
    ("values", "told", "want"),
    [
        ({"max_steps": 100}, 0, {"steps": 100, "saves": 5, "logs": 50, "evaluations": 0, "batch": 8}),
        ({"num_train_epochs": 2, "per_device_train_batch_size": 10}, 0, {"steps": 40, "saves": 5, "logs": 40}),
        ({"num_train_epochs": 2, "per_device_train_batch_size": 10, "packing": True}, 75, {"steps": 10}),
        (
            {"max_steps": 100, "val_size": 0.1, "eval_strategy": "steps", "eval_steps": 30},
            0,
            {"evaluations": 5, "evaluated": 20},
        ),
        (
            {"num_train_epochs": 3, "val_size": 20, "eval_strategy": "epoch", "load_best_model_at_end": True},
            0,
            {"steps": 69, "evaluations": 4, "evaluated": 20, "saves": 3},
        ),
        # without eval_steps as often as it logs: ten steps, a log each
        ({"max_steps": 10, "val_size": 0.1, "eval_strategy": "steps"}, 0, {"evaluations": 11, "evaluated": 20}),
        # rows are held out before the others are packed, four to one: 100 are 25
        (
            {
                "num_train_epochs": 2,
                "per_device_train_batch_size": 10,
                "packing": True,
                "val_size": 100,
                "do_eval": True,
            },
            75,
            {"steps": 6, "epochs": 2.0, "evaluated": 25},
        ),
        (
            {"finetuning_type": "lora", "train_sampling_strategy": "group_by_length"},
            0,
            {"grouped": True, "forward": 0.5},
        ),
    ],
)
def test_the_plan(case: Any, values: dict[str, Any], told: int, want: dict[str, Any]) -> None:
    """200 rows; a smoke run of ten steps had those of its steps besides."""
    found = training_plan(case(**values), 200, 10, told)
    assert {name: getattr(found, name) for name in want} == want


def test_without_its_own_account_there_is_no_forecast(folder: ExperimentFolder, case: Any) -> None:
    with pytest.raises(RecipeError, match="no results to forecast from"):
        smoke_run_forecast(folder, case(), "m", Exit(code=0, reason="finished", seconds=1))


def test_a_measured_recipe_is_known_again(case: Any, tmp_path: Path) -> None:
    key = recipe_key(case(lora_rank=4), "m")
    made = Forecast(seconds=1, steps=1, seconds_per_step=1, memory=7, recipe=key)
    for number, memory in ((1, 7), (2, 9)):
        write_json(tmp_path / f"00{number}" / "forecast.json", {**made.model_dump(), "memory": memory})
    write_json(tmp_path / "003" / "forecast.json", {"seconds": 1, "steps": 1, "seconds_per_step": 1.0})
    assert measured_memory(tmp_path, key) == (9, 2)
    # The learning rate costs no memory; the rank, the model and the batch do.
    assert recipe_key(case(lora_rank=4, learning_rate=0.1), "m") == key
    for other in (recipe_key(case(lora_rank=8), "m"), recipe_key(case(lora_rank=4), "n")):
        assert other != key and measured_memory(tmp_path, other) is None


def test_the_largest_batch_that_fits(case: Any) -> None:
    wide = case(finetuning_type="full", per_device_train_batch_size=64, cutoff_len=512)
    smaller = case(finetuning_type="full", per_device_train_batch_size=16, cutoff_len=512)
    assert largest_batch(wide, estimate_memory(wide).total) == 64
    assert largest_batch(wide, estimate_memory(smaller).total) == 16
    assert largest_batch(wide, 1 << 20) == 0
