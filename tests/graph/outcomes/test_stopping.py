"""When a run goes on, and when it ends."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tuneloop.core.budget import Amounts, SpendingLine
from tuneloop.core.directive import Directive, Extend, Finish, Lasting
from tuneloop.core.directive_log import append_row
from tuneloop.core.experiment import Critique, Experiment, Failure, Feedback, Hypothesis, Journal
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.score import Score
from tuneloop.graph.outcomes import stopping
from tuneloop.graph.state import State

IDEA = Hypothesis(statement="s", reason="r", disproof="d", aspect="first")
FEEDBACK = Feedback(promoted=False, critique=Critique(explanation="", lesson=""))


def experiment(number: int, seconds: float = 60) -> Experiment:
    failure = Failure(node="train", culprit="config", text="x")
    return Experiment(number=number, hypothesis=IDEA, failure=failure, feedback=FEEDBACK, seconds=seconds)


def context(
    run: RunFolder, loop_n: int | None, left: float | None, patience: int | None = None, begun: int = 0, window: int = 1
) -> Any:
    run_tools = SimpleNamespace(spec=SimpleNamespace(loop_n=loop_n, patience=patience, window=window, parallel=1))
    lines = [] if left is None else [SpendingLine("time", 0.0, left)]
    state = State(experiment=begun)
    return SimpleNamespace(run_tools=run_tools, run=run, spent_of_limits=lambda: lines, interactive=False, state=state)


@pytest.mark.parametrize(
    ("done", "loop_n", "left", "then"),
    [
        (0, 3, None, "research"),
        (2, 3, None, "research"),
        (3, 3, None, "finish"),
        (2, None, None, "research"),
        (3, None, None, "finish"),  # three failures in a row
        (1, None, 100.0, "research"),
        (1, None, 70.0, "finish"),  # an experiment took 60 s
        (0, None, 0.0, "research"),
    ],
)
def test_next_stage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, done: int, loop_n: int | None, left: float | None, then: str
) -> None:
    journal = Journal(experiments=tuple(experiment(i) for i in range(1, done + 1)))
    monkeypatch.setattr(stopping, "load_journal", lambda _: journal)
    took = {e.number: Amounts(seconds=e.seconds) for e in journal.experiments}
    monkeypatch.setattr(stopping, "experiment_spending", lambda _: took)
    assert stopping.next_node(context(RunFolder(tmp_path), loop_n, left)) == then


@pytest.mark.parametrize(
    ("outcomes", "then"),
    [("", "research"), ("p", "research"), ("pn", "research"), ("pnn", "finish"), ("nnp", "research"), ("nu", "research"),
     ("nun", "finish")],
)  # fmt: skip
def test_patience_ends_after_experiments_in_a_row_without_promotion(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outcomes: str, then: str
) -> None:
    score = Score(benchmark="b", split="validation", metric="accuracy", value=1, low=0, high=2, n=1, parsed=1)
    refused = Failure(node="approve", culprit="user", text="no")
    kinds: dict[str, dict[str, Any]] = {
        "p": {"failure": None, "score": score, "feedback": FEEDBACK.model_copy(update={"promoted": True})},
        "n": {"failure": None, "score": score},
        "u": {"failure": refused},
    }
    journal = Journal(experiments=tuple(experiment(i).model_copy(update=kinds[k]) for i, k in enumerate(outcomes, 1)))
    monkeypatch.setattr(stopping, "load_journal", lambda _: journal)
    monkeypatch.setattr(stopping, "experiment_spending", lambda _: {})
    run = RunFolder(tmp_path)
    assert stopping.next_node(context(run, None, None, patience=2)) == then
    assert run.stop.is_file() == (then == "finish")
    if then == "finish":
        assert read_json(run.stop)["reason"] == "2 experiments in a row brought nothing better (--patience 2)."


def test_failures_of_its_parent_do_not_end_a_fork(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    journal = Journal(experiments=tuple(experiment(i) for i in range(1, 4)))
    monkeypatch.setattr(stopping, "load_journal", lambda _: journal)
    monkeypatch.setattr(stopping, "experiment_spending", lambda _: {})
    assert stopping.next_node(context(run, 6, None)) == "finish"
    write_json(run.fork, {"run": "parent", "at": 3})
    assert stopping.next_node(context(run, 6, None)) == "research"
    write_json(run.fork, {"run": "parent", "at": 0})
    assert stopping.next_node(context(run, 6, None)) == "finish"


def test_patience_begins_anew_in_a_fork(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    score = Score(benchmark="b", split="validation", metric="accuracy", value=1, low=0, high=2, n=1, parsed=1)
    made = tuple(experiment(i).model_copy(update={"failure": None, "score": score}) for i in (1, 2, 3))
    monkeypatch.setattr(stopping, "load_journal", lambda _: Journal(experiments=made))
    monkeypatch.setattr(stopping, "experiment_spending", lambda _: {})
    run = RunFolder(tmp_path)
    for at, then in ((2, "research"), (1, "finish")):
        write_json(run.fork, {"run": "parent", "at": at})
        assert stopping.next_node(context(run, None, None, patience=2)) == then


@pytest.mark.parametrize(("command", "then"), [(Extend(experiments=1), "research"), (Finish(), "finish")])
def test_directives_move_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: Lasting, then: str) -> None:
    run = RunFolder(tmp_path)
    monkeypatch.setattr(stopping, "load_journal", lambda _: Journal(experiments=(experiment(1),)))
    loop_n = 1 if then == "research" else 3
    append_row(run.directives, Directive(id="1", text="…", command=command))
    assert stopping.next_node(context(run, loop_n, None)) == then


def test_usual_time_is_the_median_of_measured_experiments() -> None:
    score = Score(benchmark="b", split="validation", metric="accuracy", value=1, low=0, high=2, n=1, parsed=1)
    made = [
        experiment(i, seconds).model_copy(update={"failure": None, "score": score})
        for i, seconds in enumerate((1110, 60, 70), 1)
    ]
    assert Journal(experiments=(*made, experiment(4, 5000))).usual_seconds == 70
    assert Journal(experiments=(experiment(1),)).usual_seconds is None


@pytest.mark.parametrize(
    ("done", "begun", "loop_n", "over"),
    [
        (3, 3, None, False),  # three failures, of which the fourth experiment knows one
        (3, 4, None, False),
        (3, 5, None, True),
        (1, 4, 4, True),
        (1, 3, 4, False),
    ],
)
def test_what_counts_for_an_experiment_beside_others_decides_whether_it_begins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, done: int, begun: int, loop_n: int | None, over: bool
) -> None:
    journal = Journal(experiments=tuple(experiment(i) for i in range(1, done + 1)))
    monkeypatch.setattr(stopping, "load_journal", lambda _: journal)
    assert stopping.is_over(context(RunFolder(tmp_path), loop_n, None, begun=begun, window=3)) == over


def test_what_open_experiments_may_still_take_is_set_aside() -> None:
    line = SpendingLine("money", 6.0, 10.0)
    took, begun = [Amounts(money=2.0), Amounts(money=1.0)], [Amounts(money=0.5), Amounts(money=3.0)]
    assert stopping.set_aside(line, took, begun) == 1.5
    assert stopping.set_aside(SpendingLine("time", 6.0, 10.0), took, begun) == 0.0


def test_as_many_failures_in_a_row_as_run_at_once_end_a_run_side_by_side() -> None:
    journal = Journal(experiments=tuple(experiment(i) for i in range(1, 9)))
    assert stopping.is_stuck(journal, 8) and not stopping.is_stuck(journal, 9)
    three = Journal(experiments=journal.experiments[:3])
    assert stopping.is_stuck(three, 1) and stopping.is_stuck(three, 2)
