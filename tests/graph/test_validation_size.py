"""How many validation items a run measures: as many as are cheap, settled once, and kept."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.prepared import prepared, wordproblems
from tests.stand_in_engine import write_benchmark
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.event_log import iter_events
from tuneloop.core.events import ValidationChosen
from tuneloop.core.files import read_json, write_json
from tuneloop.core.job import JobStatus
from tuneloop.core.layout import Home
from tuneloop.core.run_spec import PlacedBenchmark, RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.nodes import evaluate, prepare
from tuneloop.graph.nodes.prepare import choose_validation, validation_size
from tuneloop.graph.state import State
from tuneloop.tools.benchmark_items.folder import (
    SIZES,
    SMALLEST,
    BenchmarkFolder,
    ValidationSize,
    choose_size,
    seconds_of_experiment,
    select_validation,
)
from tuneloop.tools.benchmark_items.resolve import resolve_benchmark
from tuneloop.tools.evaluation import run_evaluation

COUNTS = st.lists(st.integers(1, 6000), min_size=1, max_size=4)
SECONDS = st.floats(0, 50, allow_nan=False)


@given(there=COUNTS, pace=st.lists(SECONDS, min_size=4, max_size=4), affordable=st.floats(0, 1e5))
def test_chosen_size_fits_and_the_next_larger_does_not(
    there: list[int], pace: Sequence[float], affordable: float
) -> None:
    def cost(limit: int) -> float:
        return sum(min(limit, count) * pace[place] for place, count in enumerate(there))

    chosen = choose_size(there, dict(enumerate(pace)), affordable).limit
    assert chosen is not None
    possible = sorted({min(size, max(there)) for size in SIZES} | ({max(there)} if max(there) <= SIZES[-1] else set()))
    assert chosen in possible
    assert cost(chosen) <= affordable or chosen == possible[0]
    larger = [size for size in possible if size > chosen]
    assert not larger or cost(larger[0]) > affordable


@pytest.mark.parametrize(
    ("affordable", "limit"),
    [(0, 100), (99, 100), (199.9, 100), (200, 200), (499, 200), (500, 500), (999, 500), (1000, 1000), (1e6, 1000)],
)
def test_sizes_for_a_thousand_items_of_a_second(affordable: float, limit: int) -> None:
    assert choose_size([1000], {0: 1.0}, affordable).limit == limit


def test_never_more_than_the_largest_size() -> None:
    assert choose_size([14_000, 30], {0: 0.0, 1: 0.0}, 0).limit == 2000
    assert choose_size([1700], {0: 0.0}, 0).limit == 1700, "all there are"


def test_an_experiment_has_its_share_of_the_run_else_ten_minutes() -> None:
    assert seconds_of_experiment(3600, 6) == 600
    assert seconds_of_experiment(25 * 60, 5) == 300
    assert (
        seconds_of_experiment(3600, None) == seconds_of_experiment(None, 3) == seconds_of_experiment(None, None) == 600
    )


def context(
    tmp_path: Path, found: BenchmarkFolder | None = None, also: Sequence[PlacedBenchmark] = (), **asked: Any
) -> Context:
    """A run whose setup is settled."""
    home = Home(tmp_path)
    spec = RunSpec(benchmark="wordproblems", base_model="tiny", **asked)
    run = prepared(home.run("r"), spec, found or wordproblems(home), tmp_path, also=also)
    return Context(run, Settings.model_validate({"FT_FILE_PATH": tmp_path}), State(run_id="r"))


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An item takes a tenth of a second; how often that was measured."""
    asked: list[int] = []

    def probe(ctx: Context) -> dict[int, float]:
        asked.append(len(asked))
        return dict.fromkeys(range(len(ctx.run_tools.benchmarks)), 0.1)

    monkeypatch.setattr(prepare, "probe_item_seconds", probe)
    return asked


@pytest.mark.parametrize(
    ("asked", "limit"),
    [
        ({}, 1000),  # a fifth of ten minutes are 120 s
        ({"validation_share": 0.1}, 500),
        ({"validation_share": 1e-9}, SMALLEST),
        ({"timeout": 1500, "loop_n": 6}, 500),  # a fifth of 250 s
        ({"timeout": 1500}, 1000),
        ({"timeout": 600, "loop_n": 10, "validation_share": 1}, 500),
    ],
)
def test_size_follows_from_the_pace_and_the_time_of_an_experiment(
    tmp_path: Path, probes: list[int], asked: dict[str, Any], limit: int
) -> None:
    assert validation_size(context(tmp_path, **asked)).limit == limit
    assert probes == [0]


def test_time_of_every_benchmark_counts(tmp_path: Path, probes: list[int]) -> None:
    found = wordproblems(Home(tmp_path))
    also = [
        PlacedBenchmark(
            benchmark=found.benchmark.model_copy(update={"name": f"b{i}"}), root=found.root, fingerprint="-"
        )
        for i in range(2)
    ]
    assert validation_size(context(tmp_path, also=also)).limit == 200, (
        "500 of each of three take 150 s, 120 may be spent"
    )


def test_number_that_was_asked_for_wins(tmp_path: Path, probes: list[int]) -> None:
    assert validation_size(context(tmp_path, benchmark_limit=60)) == ValidationSize(60, "as asked")
    assert probes == [], "nothing is measured for it"


def test_few_items_are_all_measured(tmp_path: Path, probes: list[int]) -> None:
    task = write_benchmark(tmp_path / "task")
    found = resolve_benchmark(str(task), Home(tmp_path), None)
    assert validation_size(context(tmp_path, found)) == ValidationSize(None, "all there are")
    assert probes == []


def test_choice_is_made_once_and_told(tmp_path: Path, probes: list[int]) -> None:
    ctx = context(tmp_path)
    choose_validation(ctx)
    choose_validation(ctx)
    later = context(tmp_path, validation_share=0.01)  # as a resume on a slower machine would find it
    choose_validation(later)
    assert probes == [0]
    assert (
        read_json(ctx.run.validation)["limit"]
        == ctx.run_tools.validation_limit
        == later.run_tools.validation_limit
        == 1000
    )
    (said,) = iter_events(ctx.run.events)
    assert isinstance(said, ValidationChosen)
    assert (said.benchmark, said.n, said.units) == ("wordproblems", 1000, 1000)
    assert 400 < said.unseen < 600
    assert said.why == "measuring takes about 100 s, and 120 s may be spent on it"


def test_fewer_items_than_there_are_are_told_as_they_are_measured(tmp_path: Path) -> None:
    ctx = context(tmp_path, benchmark_limit=200)
    choose_validation(ctx)
    (said,) = iter_events(ctx.run.events)
    assert isinstance(said, ValidationChosen)
    assert (said.n, said.units) == (200, 200)
    assert said.unseen == len(ctx.run_tools.validation(ctx.run_tools.benchmark).unseen)


def test_other_items_than_at_the_beginning_are_refused(tmp_path: Path) -> None:
    ctx = context(tmp_path, benchmark_limit=200)
    choose_validation(ctx)
    sets = run_evaluation._sets(ctx.run_tools, "validation", 200)
    assert [run_evaluation.items_order_hash(one) for one in sets] == list(
        read_json(ctx.run.validation)["order"].values()
    )
    other = {
        one.name: run_evaluation.items_order_hash(one) for one in run_evaluation.validation_sets(ctx.run_tools, 201)
    }
    write_json(ctx.run.validation, {**read_json(ctx.run.validation), "order": other})
    with pytest.raises(InfrastructureError, match="its validation items are not those that this run began with"):
        run_evaluation._sets(ctx.run_tools, "validation", 200)


def test_choice_of_the_parent_is_kept(tmp_path: Path, probes: list[int]) -> None:
    """A fork finds it in `baseline/`, which it takes over."""
    ctx = context(tmp_path)
    write_json(ctx.run.validation, {"limit": 200, "why": "measuring takes about 80 s"})
    choose_validation(ctx)
    assert (probes, ctx.run_tools.validation_limit) == ([], 200)
    assert len(ctx.run_tools.validation(ctx.run_tools.benchmark).every) == 200


def test_smaller_choice_is_the_beginning_of_a_larger_one(tmp_path: Path) -> None:
    found = wordproblems(Home(tmp_path))
    sets = [{item.id for item in select_validation(found, limit).every} for limit in (100, 200, 500, None)]
    assert [len(ids) for ids in sets] == [100, 200, 500, 1000]
    assert all(small < large for small, large in itertools.pairwise(sets))


def test_probe_that_is_killed_again_and_again_pauses_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def killed(ctx: Context, name: str, *_: Any) -> JobStatus:
        tries.append(name)
        return JobStatus(state="lost")

    monkeypatch.setattr(prepare, "start_probe", lambda *_: None)
    monkeypatch.setattr(evaluate, "wait_for_job", killed)
    with pytest.raises(InfrastructureError, match="probe was killed 5 times"):
        validation_size(context(tmp_path))
    assert tries == ["probe"] * 5
