"""A run's manifest: what was asked, by which format, and how a run is repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.tools.runs.manifest import FORMAT, read_spec, repeated_spec, write_manifest
from tuneloop.tools.runs.status import run_status

SPEC = RunSpec(benchmark="b", base_model="m", loop_n=3)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "r1")
    run.root.mkdir()
    write_manifest(run, SPEC)
    return run


def change(run: RunFolder, **values: Any) -> None:
    """Another manifest; None takes a key away."""
    told = {**yaml.safe_load(run.spec.read_text()), **values}
    run.spec.write_text(yaml.safe_dump({key: value for key, value in told.items() if value is not None}))


@pytest.mark.parametrize("made", [None, 1, FORMAT - 1])
def test_older_run_is_refused_in_one_line(run: RunFolder, made: int | None) -> None:
    change(run, format=made, version="0.0.9")
    with pytest.raises(
        InvalidRequestError, match=r"run r1 was made by an older tuneloop \(0\.0\.9\).*start it anew$"
    ) as told:
        read_spec(run)
    assert "\n" not in str(told.value)
    with pytest.raises(InvalidRequestError, match="older tuneloop"):
        repeated_spec(run)


def test_newer_run_is_refused_in_one_line(run: RunFolder) -> None:
    change(run, format=FORMAT + 1, version="9.1.0")
    with pytest.raises(InvalidRequestError, match=r"newer tuneloop \(9\.1\.0\).*upgrade"):
        read_spec(run)


def test_repeated_run_measures_as_many_items_as_the_first(run: RunFolder) -> None:
    """A faster machine, or another time limit, would choose another number, and scores could not be compared."""
    assert repeated_spec(run) == SPEC, "not chosen yet"
    write_json(run.validation, {"limit": 500, "why": "measuring takes about 80 s"})
    assert repeated_spec(run) == SPEC.model_copy(update={"benchmark_limit": 500})
    write_json(run.validation, {"limit": None, "why": "all there are"})
    assert repeated_spec(run) == SPEC


def test_repeated_run_keeps_the_number_that_was_asked_for(run: RunFolder) -> None:
    asked = SPEC.model_copy(update={"benchmark_limit": 60})
    write_manifest(run, asked)
    write_json(run.validation, {"limit": 60, "why": "as asked"})
    assert repeated_spec(run) == asked


def test_a_repeat_takes_the_base_model_that_was_chosen(run: RunFolder) -> None:
    write_manifest(run, SPEC.model_copy(update={"base_model": "auto"}))
    assert repeated_spec(run).base_model == "auto"
    run.model_choice.write_text('{"base_model": "smollm2"}')
    assert repeated_spec(run).base_model == run_status(run).base_model == "smollm2"
