"""When a run goes on, and when it ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tuneloop.core.experiment import Critique, Experiment, Failure, Feedback, Hypothesis, Journal
from tuneloop.graph import onward

IDEA = Hypothesis(statement="s", reason="r", disproof="d", aspect="first")
FEEDBACK = Feedback(accepted=False, critique=Critique(explanation="", lesson=""))


def experiment(number: int, seconds: float = 60) -> Experiment:
    failure = Failure(node="train", culprit="config", text="x")
    return Experiment(number=number, hypothesis=IDEA, failure=failure, feedback=FEEDBACK, seconds=seconds)


def context(loop_n: int | None, left: float | None) -> Any:
    bench = SimpleNamespace(spec=SimpleNamespace(loop_n=loop_n))
    return SimpleNamespace(bench=bench, run=None, seconds_left=lambda: left)


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
def test_onward(monkeypatch: pytest.MonkeyPatch, done: int, loop_n: int | None, left: float | None, then: str) -> None:
    journal = Journal(experiments=tuple(experiment(i) for i in range(1, done + 1)))
    monkeypatch.setattr(onward, "load_journal", lambda _: journal)
    assert onward.after(context(loop_n, left)) == then
