"""What a run learns from is settled from cards alone, once, and written down."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hub.server import LocalHub
from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.event_log import iter_events
from tuneloop.core.events import AgentAnswered, BaselineMeasured
from tuneloop.core.files import read_json, write_json
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.nodes import prepare
from tuneloop.graph.nodes.prepare import chosen_datasets
from tuneloop.graph.state import State
from tuneloop.tools.runs.manifest import write_manifest


def context(home: Path, **more: object) -> Context:
    settings = Settings(FT_FILE_PATH=home)
    run = settings.home.run("r")
    write_manifest(run, RunSpec.model_validate({"benchmark": "wordproblems", "base_model": "tiny", **more}))
    return Context(run, settings, State(run_id="r"))


AIME = Benchmark(name="aime25", domain="math", description="Competition problems with a number as the answer.")


def test_the_users_data_are_taken_as_they_are(tmp_path: Path) -> None:
    ctx = context(tmp_path, datasets=("panorama", "my/own"))
    assert chosen_datasets(ctx, AIME) == ("panorama", "my/own")
    assert not ctx.run.selection.exists()


def test_researcher_selects_data_before_download(tmp_path: Path, hub: LocalHub) -> None:
    ctx = context(tmp_path)
    assert chosen_datasets(ctx, AIME)[0] == "deepscaler"
    assert not hub.asked
    written = read_json(ctx.run.selection)
    assert written["datasets"][0] == "deepscaler"
    assert "made for aime25" in written["reason"]
    assert written["rated"][0]["name"] == "deepscaler"
    said = [e for e in iter_events(ctx.run.events) if isinstance(e, AgentAnswered)]
    assert [e.agent for e in said] == ["researcher"]
    assert said[0].says.startswith("data: deepscaler")
    assert said[0].why == written["reason"]


def test_a_choice_that_was_made_stays(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    chosen_datasets(ctx, AIME)
    write_json(ctx.run.selection, {**read_json(ctx.run.selection), "datasets": ["wordproblems"]})
    assert chosen_datasets(ctx, AIME) == ("wordproblems",)
    assert len([e for e in iter_events(ctx.run.events) if isinstance(e, AgentAnswered)]) == 1


def test_nothing_that_fits_is_one_line(tmp_path: Path) -> None:
    music = Benchmark(name="tunes", domain="music", description="Name that tune.")
    with pytest.raises(InvalidRequestError, match=r"fits benchmark tunes \(domain music\): name one with --dataset"):
        chosen_datasets(context(tmp_path), music)


def test_downloads_longer_than_the_run_leave_the_base_model_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[float | None] = []

    class MeasuredError(Exception):
        pass

    def measure(ctx: Context, experiment: int) -> None:
        left.append(ctx.seconds_left())
        raise MeasuredError

    monkeypatch.setattr(prepare, "estimate_power", lambda _: BaselineMeasured(value=0, low=0, high=0, n=1))
    monkeypatch.setattr(prepare, "choose_validation", lambda _: None)
    monkeypatch.setattr(prepare, "prefetch_profiles", lambda _: None)
    monkeypatch.setattr(prepare, "measure_experiment", measure)
    long_ago = time.monotonic() - 1000
    ctx = replace(context(tmp_path, timeout=60), began=long_ago)
    with pytest.raises(MeasuredError):
        prepare.measure_base_model(ctx, long_ago)
    assert left[0] is not None and 50 < left[0] <= 60
