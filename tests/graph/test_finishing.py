"""The end of a run: what is delivered, said and counted, with written scores on the sealed test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.graph.test_competing import THREE, known, run_of
from tuneloop.core.event_log import iter_events
from tuneloop.core.events import RunFinished
from tuneloop.core.files import read_json, write_json
from tuneloop.core.score import ItemResult, Score, SealedTest
from tuneloop.graph.context import Context
from tuneloop.graph.nodes import finish as node
from tuneloop.graph.nodes.finish import finish, is_below_base
from tuneloop.tools.evaluation.test_access_log import log_test_access
from tuneloop.tools.jobs.warm_workers import WarmWorkers
from tuneloop.tools.runs.fork import Fork
from tuneloop.tools.runs.journal import keep_score, score_file

Ending = Callable[..., dict[str, Any]]


def sealed(right: int, benchmark: str = "wordproblems") -> Score:
    """On the sealed test."""
    return known(right, benchmark).model_copy(update={"split": "test"})


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Ending:
    """Finish with these sealed scores, the guard's last; the report."""

    def whole_model(ctx: Context, _: object) -> None:
        if not ctx.run.best.exists():
            write_json(ctx.run.candidate / "model.safetensors", "weights")
            write_json(ctx.run.candidate / "manifest.json", {"files": {}})

    def call(ctx: Context, base: tuple[int, ...], best: tuple[int, ...]) -> dict[str, Any]:
        names = ("wordproblems", "task")

        def read(ctx: Context, *, candidate: bool) -> tuple[list[Score], list[Score]]:
            assert candidate == bool(best)
            return [[sealed(right, name) for right, name in zip(found, names, strict=False)] for found in (base, best)]  # type: ignore[return-value]

        monkeypatch.setattr(node, "run_sealed_test", read)
        monkeypatch.setattr(node, "make_candidate", whole_model)
        monkeypatch.setattr(WarmWorkers, "stop", lambda _: None)
        finish(ctx)
        return dict(read_json(ctx.run.report_json))

    return call


def said(ctx: Context) -> RunFinished:
    (event,) = [event for event in iter_events(ctx.run.events) if isinstance(event, RunFinished)]
    return event


def first_line(ctx: Context) -> str:
    return ctx.run.report.read_text().splitlines()[2]


def test_what_measures_higher_is_delivered_and_claimed_where_shown(tmp_path: Path, ended: Ending) -> None:
    ctx = run_of(tmp_path, THREE, trainings=1)
    report = ended(ctx, (20,), (60,))
    assert report["best"]["delivered"] and report["best"]["claimed"]
    assert (ctx.run.best / "manifest.json").is_file()
    assert not ctx.run.candidate.exists()
    assert first_line(ctx).startswith(
        "**Experiment 2 is better than the base model on the sealed test: 10.0 → 30.0, +20.0"
    )
    event = said(ctx)
    assert (event.best, event.delivered, event.baseline_test, event.best_test) == (2, True, 10, 30)
    assert event.says == first_line(ctx).replace("*", "").replace("`", "")


@pytest.mark.parametrize("right", [20, 21])
def test_tie_or_one_item_more_is_delivered_without_a_claim(tmp_path: Path, ended: Ending, right: int) -> None:
    ctx = run_of(tmp_path, THREE, trainings=1)
    report = ended(ctx, (20,), (right,))
    assert (report["best"]["delivered"], report["best"]["claimed"]) == (True, False)
    assert (ctx.run.best / "model.safetensors").is_file()
    assert "this does not show that it is better" in first_line(ctx)


def test_candidate_below_the_base_stays_in_its_folder(tmp_path: Path, ended: Ending) -> None:
    ctx = run_of(tmp_path, THREE, trainings=1)
    report = ended(ctx, (20,), (19,))
    assert (report["best"]["experiment"], report["best"]["delivered"]) == (2, False)
    assert not ctx.run.best.exists() and not ctx.run.candidate.exists()
    assert (ctx.run.experiment(2).model / "model.safetensors").is_file()
    assert first_line(ctx).startswith(
        "**No model is delivered: the sealed test measures experiment 2 below the base model"
    )
    assert "`experiments/002/`" in first_line(ctx)
    assert said(ctx).delivered is False


def test_nothing_promoted_measures_the_base_alone(tmp_path: Path, ended: Ending) -> None:
    ctx = run_of(tmp_path, ((10, False),), trainings=1)
    report = ended(ctx, (20,), ())
    assert (report["best"]["experiment"], report["claim"]) == (None, None)
    assert report["baseline"]["test"]["value"] == 10
    assert "the base model stays" in first_line(ctx)
    assert not ctx.run.best.exists()
    event = said(ctx)
    assert (event.best, event.delivered, event.best_test) == (None, False, None)


def test_guard_broken_on_the_sealed_test_is_named(tmp_path: Path, ended: Ending) -> None:
    """Four points may be lost; the sealed test measures ten."""
    ctx = run_of(tmp_path, THREE, trainings=1, guarded=True)
    report = ended(ctx, (20, 100), (60, 80))
    assert "task lost 10.0 points on its sealed test, allowed are 4." in first_line(ctx)
    assert report["guards_test"][0]["loss"] == pytest.approx(10)
    assert (ctx.run.best / "model.safetensors").is_file()


def test_opening_is_counted_once_and_lineage_claims_nothing(tmp_path: Path, ended: Ending) -> None:
    parent = run_of(tmp_path, THREE, trainings=1)
    log_test_access(parent.run_tools)
    parent.run.root.rename(parent.run.root.with_name("parent"))
    rows = (tmp_path / "benchmarks" / "reads.jsonl").read_text()
    (tmp_path / "benchmarks" / "reads.jsonl").write_text(rows.replace('"r"', '"parent"'))
    ctx = run_of(tmp_path, THREE, trainings=1)
    write_json(ctx.run.fork, Fork(run="parent", at=3).model_dump(mode="json"))
    report = ended(ctx, (20,), (60,))
    assert report["opening"] == 2
    assert report["forked_from"] == {"run": "parent", "at": 3, "opened": True}
    assert (report["claim"]["claimed"], report["best"]["claimed"], report["best"]["delivered"]) == (False, False, True)
    assert "This was opening 2 of this test" in first_line(ctx) and "nothing is claimed" in first_line(ctx)


def test_kill_before_the_report_changes_nothing(tmp_path: Path, ended: Ending, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = run_of(tmp_path, THREE, trainings=1)
    with monkeypatch.context() as patch:
        patch.setattr(node, "write_report", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            ended(ctx, (20,), (60,))
    assert not ctx.run.report_json.exists()
    before = (ctx.run.final / "test.json").read_bytes()
    report = ended(ctx, (199,), (1,))
    assert (ctx.run.final / "test.json").read_bytes() == before, "the test is read once"
    assert (report["opening"], report["best"]["test"]["value"]) == (1, 30)
    assert (ctx.run.best / "model.safetensors").is_file()


def test_halves_of_validation_are_compared(tmp_path: Path, ended: Ending) -> None:
    """The candidate knows every shown item, and of the others as much as the base model."""
    ctx = run_of(tmp_path, THREE, trainings=1)

    def halved(shown: int, hidden: int) -> Score:
        def items(name: str, right: int) -> tuple[ItemResult, ...]:
            return tuple(
                ItemResult(id=f"{name}{i}", prediction="", parsed=None, answer="", correct=i < right)
                for i in range(100)
            )

        whole = known(shown + hidden)
        return whole.model_copy(update={"items": items("s", shown), "unseen": items("u", hidden)})

    keep_score(score_file(ctx.run, 0), [halved(10, 10)])
    keep_score(score_file(ctx.run, 2), [halved(100, 10)])
    report = ended(ctx, (20,), (60,))
    assert (report["halves"]["shown"]["gain"], report["halves"]["unseen"]["gain"]) == (90, 0)
    assert report["halves"]["low"] > 0
    text = ctx.run.report.read_text()
    assert "Agents saw 100 of them, on which the best gained +90.0 points" in text
    assert "The shown items may have been learned." in text


@pytest.mark.parametrize(("base", "best", "below"), [(20, 19, True), (20, 20, False), (20, 21, False)])
def test_below_base_is_a_lower_sum(base: int, best: int, below: bool) -> None:
    assert is_below_base(SealedTest(base=(sealed(base),), best=(sealed(best),))) is below
