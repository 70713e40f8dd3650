"""A candidate is promoted when it measures better and forgot nothing; whatever speaks against it is said."""

import pytest

from tests.tools.statistics.worlds import score
from tuneloop.core.run_spec import Guard
from tuneloop.core.score import Decision, Score
from tuneloop.tools.statistics import decide_promotion

BETTER, BASE = score([1.0] * 60 + [0.0] * 40), score([1.0] * 20 + [0.0] * 80)
LARGE = 2000


def knowing(right: int, n: int = LARGE) -> Score:
    """A score on the guard of which the first items are right."""
    return score([1.0] * right + [0.0] * (n - right), benchmark="mmlu")


def guarded(candidate: Score, base: Score, points: float = 3.0) -> Decision:
    guards = [Guard(benchmark="mmlu", points=points)]
    return decide_promotion(BETTER, BASE, guards=guards, others={"mmlu": candidate}, base={"mmlu": base})


def halved(whole: Score) -> Score:
    """The same measurement, of which agents see every other item."""
    return whole.model_copy(update={"items": whole.items[::2], "unseen": whole.items[1::2]})


def test_better_without_guards_is_promoted() -> None:
    found = decide_promotion(BETTER, BASE)
    assert (found.promoted, found.reasons, found.guards) == (True, (), ())


def test_one_item_more_is_enough() -> None:
    found = decide_promotion(score([1.0] * 21 + [0.0] * 79), BASE)
    assert found.promoted
    assert found.comparison.low < 0 < found.comparison.gain


@pytest.mark.parametrize(
    ("right", "says"),
    [
        (20, "no better than the incumbent: +0.0 points (95 %: -3.7 to 3.7) on 100 items"),
        (17, "no better than the incumbent: -3.0 points (95 %: -8.5 to 1.2) on 100 items"),
    ],
)
def test_tie_and_loss_are_turned_down_with_gain_interval_and_items(right: int, says: str) -> None:
    found = decide_promotion(score([1.0] * right + [0.0] * (100 - right)), BASE)
    assert not found.promoted
    assert found.reasons == (says,)


def test_a_guard_that_holds_is_on_record() -> None:
    found = guarded(knowing(1000), knowing(1000))
    assert found.promoted
    assert found.guards[0].able
    assert found.guards[0].loss == 0 < found.guards[0].worst < 3


def test_forgetting_is_turned_down_although_the_candidate_is_better() -> None:
    found = guarded(knowing(920), knowing(1000))
    assert found.comparison.better
    assert not found.promoted
    assert found.reasons == (f"mmlu: lost 4.0 points on {LARGE:,} items, which can be up to 4.8 (95 %); allowed are 3",)


def test_a_loss_that_could_be_more_than_allowed_is_turned_down() -> None:
    found = guarded(knowing(950), knowing(1000))
    assert found.guards[0].loss < 3 < found.guards[0].worst
    assert not found.promoted


def test_with_few_items_measured_loss_decides() -> None:
    kept, lost = guarded(knowing(49, 100), knowing(50, 100)), guarded(knowing(46, 100), knowing(50, 100))
    assert kept.promoted
    assert not kept.guards[0].able
    assert not lost.promoted
    assert "so few items cannot show an allowance below" in lost.reasons[0]


def test_items_that_agents_do_not_see_count_in_decision_and_guard() -> None:
    candidate, base = knowing(990), knowing(1000)
    assert guarded(halved(candidate), halved(base)) == guarded(candidate, base)
    assert decide_promotion(halved(BETTER), halved(BASE)) == decide_promotion(BETTER, BASE)
    shown_gain = halved(score([1.0, 0.0] * 20)), halved(score([0.0, 1.0] * 20))
    assert not decide_promotion(*shown_gain).promoted, "as much was lost where agents do not look"


def test_every_reason_is_given() -> None:
    guards = [Guard(benchmark=name, points=1) for name in ("a", "b", "c")]
    scores = {name: knowing(800) for name in ("a", "b")} | {"c": knowing(1000)}
    found = decide_promotion(BASE, BASE, guards=guards, others=scores, base={name: knowing(1000) for name in "abc"})
    assert [reason.partition(" ")[0] for reason in found.reasons] == ["no", "a:", "b:"]


def test_a_guard_that_was_not_measured_is_an_error() -> None:
    with pytest.raises(ValueError, match="the guard mmlu:-2 was not measured"):
        decide_promotion(BETTER, BASE, guards=[Guard(benchmark="mmlu", points=2)])
