"""What a registration of dataset_info.json may say, and how many steps a config makes of several data sets."""

from __future__ import annotations

import pytest

from tuneloop.tools.config.data_registry import entry_problem


@pytest.mark.parametrize("key", ["hf_hub_url", "ms_hub_url", "om_hub_url", "script_url", "cloud_file_name"])
def test_a_source_beyond_a_file_is_no_misspelt_key(key: str) -> None:
    assert entry_problem({key: "s3://bucket/rows.json"}) == ""


def test_a_misspelt_key_is_named() -> None:
    assert "did you mean file_name?" in entry_problem({"filename": "rows.json"})
