"""A damaged report is named, whoever reads it again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuneloop.core.errors import DamagedFileError
from tuneloop.core.files import write_json
from tuneloop.core.layout import RunFolder
from tuneloop.tools.report.report_file import read_report

WHOLE: dict[str, Any] = {
    "baseline": {"test": {"value": 10.0, "n": 100}},
    "best": {"test": None, "delivered": False, "claimed": False},
    "budget": {
        "experiments": 2,
        "seconds": 60.0,
        "spent": {"money": None, "time": {"spent": 6.0, "limit": None}, "disk": 7, "models": []},
    },
    "claim": None,
}
CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no object": lambda _: [],
    "no best": lambda told: {**told, "best": None},
    "a text for a score": lambda told: {**told, "baseline": {"test": {"value": "x"}}},
    "no time": lambda told: {**told, "budget": {"experiments": 2, "spent": {}}},
    "a number for the time": lambda told: {**told, "budget": {**told["budget"], "spent": {"time": 6}}},
    "a list for what was spent": lambda told: {**told, "budget": {**told["budget"], "spent": []}},
}


def test_a_whole_report_is_given_as_it_is(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    write_json(run.report_json, {**WHOLE, "more": 1})
    assert read_report(run) == {**WHOLE, "more": 1}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_damaged_one_is_named(tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    run = RunFolder(tmp_path)
    write_json(run.report_json, change(WHOLE))
    with pytest.raises(DamagedFileError, match=r"report\.json is damaged"):
        read_report(run)
