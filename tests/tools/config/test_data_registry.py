"""What a registration of dataset_info.json may say, and how many steps a config makes of several data sets."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.tools.config import world
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.check import check_config
from tuneloop.tools.config.data_registry import entry_problem


@pytest.mark.parametrize("key", ["hf_hub_url", "ms_hub_url", "om_hub_url", "script_url", "cloud_file_name"])
def test_a_source_beyond_a_file_is_no_misspelt_key(key: str) -> None:
    assert entry_problem({key: "s3://bucket/rows.json"}) == ""


def test_a_misspelt_key_is_named() -> None:
    assert "did you mean file_name?" in entry_problem({"filename": "rows.json"})


@pytest.mark.parametrize(("warmup", "levels"), [(4, []), (5, ["warning"])])
def test_max_samples_holds_for_each_data_set(warmup: int, levels: list[str], catalog: Catalog, place: Path) -> None:
    # Five of the ten rows of each data set, two a step: five steps.
    values = {**world.BASE, "dataset": "alpaca,more", "max_samples": 5, "per_device_train_batch_size": 2}
    values |= {"max_steps": -1, "num_train_epochs": 1, "warmup_steps": warmup, "learning_rate": 1e-4, "cutoff_len": 256}
    text = yaml.safe_dump({**values, "do_train": True})
    found = check_config(text, catalog, None, "cpu", profile="engine", here=place)
    assert [f.level for f in found if f.key == "warmup_steps"] == levels
    assert [str(f) for f in found if f.level == "error"] == []
