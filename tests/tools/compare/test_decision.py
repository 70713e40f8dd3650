"""A candidate is accepted when it is better and forgot nothing; whatever speaks against it is said."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.compare.worlds import score
from tuneloop.core.run import Guard
from tuneloop.core.score import Decision, Score
from tuneloop.tools.compare import decide, share

BETTER, BASE = score([1.0] * 60 + [0.0] * 40), score([1.0] * 20 + [0.0] * 80)
LARGE = 2000


def knowing(right: int, n: int = LARGE) -> Score:
    """A score on the guard of which the first items are right."""
    return score([1.0] * right + [0.0] * (n - right), benchmark="mmlu")


def guarded(candidate: Score, base: Score, points: float = 3.0) -> Decision:
    guards = [Guard(benchmark="mmlu", points=points)]
    return decide(BETTER, BASE, 3, guards=guards, others={"mmlu": candidate}, base={"mmlu": base})


def test_better_without_guards_is_accepted() -> None:
    found = decide(BETTER, BASE, 3)
    assert (found.accepted, found.reasons, found.guards) == (True, (), ())


@pytest.mark.parametrize(
    ("candidate", "says"),
    [(score([1.0] * 23 + [0.0] * 77), "p = 0.125, wanted <= 0.0167"), (score([1.0] * 20 + [0.0] * 80), "no better")],
)
def test_what_could_be_chance_is_turned_down_with_the_numbers(candidate: Score, says: str) -> None:
    found = decide(candidate, BASE, 3)
    assert not found.accepted
    assert [says in reason for reason in found.reasons] == [True]


def test_a_guard_that_holds_is_on_record() -> None:
    found = guarded(knowing(1000), knowing(1000))
    assert found.accepted
    assert found.guards[0].able
    assert found.guards[0].loss == 0 < found.guards[0].worst < 3


def test_forgetting_is_turned_down_although_the_candidate_is_better() -> None:
    found = guarded(knowing(920), knowing(1000))
    assert found.comparison.accepted
    assert not found.accepted
    assert found.reasons == (f"mmlu: lost 4.0 points on {LARGE} items, which can be up to 4.8 (95 %); allowed are 3",)


def test_a_loss_that_could_be_more_than_allowed_is_turned_down() -> None:
    found = guarded(knowing(950), knowing(1000))
    assert found.guards[0].loss < 3 < found.guards[0].worst
    assert not found.accepted


def test_where_few_items_cannot_show_it_the_measured_loss_decides_and_this_is_said() -> None:
    kept, lost = guarded(knowing(49, 100), knowing(50, 100)), guarded(knowing(46, 100), knowing(50, 100))
    assert kept.accepted
    assert not kept.guards[0].able
    assert not lost.accepted
    assert "so few items cannot show an allowance below" in lost.reasons[0]


def test_every_reason_is_given() -> None:
    guards = [Guard(benchmark=name, points=1) for name in ("a", "b", "c")]
    scores = {name: knowing(800) for name in ("a", "b")} | {"c": knowing(1000)}
    found = decide(BASE, BASE, 1, guards=guards, others=scores, base={name: knowing(1000) for name in "abc"})
    assert [reason.partition(" ")[0] for reason in found.reasons] == ["no", "a:", "b:"]


def test_a_guard_that_was_not_measured_is_an_error() -> None:
    with pytest.raises(ValueError, match="the guard mmlu:-2 was not measured"):
        decide(BETTER, BASE, 1, guards=[Guard(benchmark="mmlu", points=2)])


@pytest.mark.parametrize("planned", [1, 3, 10])
def test_planned_candidates_share_five_percent(planned: int) -> None:
    assert shares([*"m" * planned], planned) == [planned] * planned


def test_what_failed_leaves_its_share_to_those_that_follow() -> None:
    spent = shares([*"mfmffmmfmm"], 10)
    assert spent == sorted(spent, reverse=True)
    assert 9 / 10 < sum(1 / divisor for divisor in spent) <= 1
    assert share(1) == 1


@given(st.lists(st.sampled_from("mf+-"), max_size=30), st.integers(1, 8))
def test_whatever_is_added_or_taken_away_on_the_way_all_together_stay_within(outcomes: list[str], planned: int) -> None:
    assert sum(Fraction(1, divisor) for divisor in shares(outcomes, planned)) <= 1


def test_what_is_added_when_nothing_is_left_has_a_small_second_allowance() -> None:
    spent = shares([*"mmmm"], 4)
    for _ in range(200):
        spent.append(share(1, spent))
    assert 1 < sum(1 / divisor for divisor in spent) <= 1 + 1 / 5


def shares(outcomes: list[str], planned: int) -> list[int]:
    """Divisors of a run's candidates: `m` measured, `f` failed, `+` and `-` an experiment more or less while one is open."""
    spent, done = list[int](), 0
    for outcome in outcomes:
        if done >= planned:
            break
        if outcome in "+-":
            planned = max(done + 1, planned + (1 if outcome == "+" else -1))
        if outcome == "m":
            spent.append(share(planned - done, spent))
        done += outcome in "mf"
    return spent


def test_without_a_plan_the_shares_never_use_it_up() -> None:
    spent = list[int]()
    for _ in range(500):
        spent.append(share(None, spent))
    assert spent[:3] == [2, 6, 12]
    assert sum(1 / divisor for divisor in spent) < 1
