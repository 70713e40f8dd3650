"""Scores of both halves of validation, the incumbent of a journal, and how a gain is written."""

from __future__ import annotations

import pytest

from tuneloop.core.experiment import Critique, Experiment, Failure, Feedback, Hypothesis, Journal
from tuneloop.core.formatting import format_comparison, format_gain, format_gain_cell
from tuneloop.core.score import Comparison, ItemResult, Score


def broken(name: str) -> ItemResult:
    """An item on which the scorer failed."""
    return ItemResult(id=name, prediction="p", parsed=None, answer="a", correct=False, error="KeyError: 'x'")


def scored(shown: int, unseen: int, split: str = "validation") -> Score:
    """A score of which the scorer failed on every item."""
    return Score.model_validate(
        {
            "benchmark": "b", "split": split, "metric": "m", "value": 0, "low": 0, "high": 9, "n": shown + unseen, "parsed": 0,
            "items": [broken(f"seen-{i}") for i in range(shown)], "unseen": [broken(f"hidden-{i}") for i in range(unseen)],
        }
    )  # fmt: skip


def test_scorer_failures_on_unseen_items_are_only_counted() -> None:
    said = scored(2, 3).scorer_failed()
    assert said.startswith("the scorer failed on 5 of 5 items")
    assert "seen-0: KeyError" in said and "and 3 more" in said
    assert "hidden" not in said
    assert scored(0, 3).scorer_failed() == "the scorer failed on 3 of 3 items, which count as wrong"
    assert "seen" not in scored(4, 0, "test").scorer_failed()


def experiment(number: int, value: float | None, *, promoted: bool) -> Experiment:
    """One that is over; None: it failed."""
    return Experiment(
        number=number,
        hypothesis=Hypothesis(statement="s", reason="r", disproof="d", aspect="first"),
        score=None if value is None else scored(1, 0).model_copy(update={"value": value}),
        failure=Failure(node="train", culprit="config", text="it broke") if value is None else None,
        feedback=Feedback(promoted=promoted, critique=Critique(explanation="", lesson="")),
    )


def test_incumbent_is_what_was_promoted_last_not_the_highest() -> None:
    journal = Journal(
        experiments=(
            experiment(1, 50, promoted=True),
            experiment(2, None, promoted=False),
            experiment(3, 60, promoted=True),
            experiment(4, 90, promoted=False),
        )
    )
    assert [e.outcome for e in journal.experiments] == ["promoted", "failed", "promoted", "not promoted"]
    assert [e.number for e in journal.promoted] == [3, 1]
    assert journal.best is not None
    assert journal.best.number == 3
    assert Journal(experiments=(experiment(1, 9, promoted=False),)).best is None


def test_trained_but_not_measured_is_no_failure() -> None:
    trained = experiment(1, None, promoted=False).model_copy(update={"failure": None})
    journal = Journal(experiments=(trained, experiment(2, None, promoted=False)))
    assert [e.outcome for e in journal.experiments] == ["not evaluated", "failed"]
    assert (journal.failed, journal.scored, journal.best) == (1, 0, None)


@pytest.mark.parametrize(
    ("n", "units", "says"),
    [
        (1000, 1000, "+3.0 points (95 %: 0.9 to 5.1) on 1,000 items"),
        (1000, 125, "+3.0 points (95 %: 0.9 to 5.1) on 1,000 items in 125 clusters"),
        (60, 0, "+3.0 points (95 %: 0.9 to 5.1) on 60 items"),
    ],
)
def test_gain_is_told_with_interval_items_and_clusters(n: int, units: int, says: str) -> None:
    assert (
        format_comparison(Comparison(n=n, units=units, gain=3, low=0.9, high=5.1, wins=9, losses=3, better=True))
        == says
    )


def test_loss_and_tie_have_a_sign() -> None:
    assert format_gain(-1.25, -3, 0.5) == "-1.2 points (95 %: -3.0 to 0.5)"
    assert format_gain(0, -3, 3) == "+0.0 points (95 %: -3.0 to 3.0)"
    assert format_gain_cell(3, 0.9, 5.1) == "+3.0 (0.9 to 5.1)"
