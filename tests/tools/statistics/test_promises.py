"""What claims, guards and intervals promise, simulated with models of known truth, through the code that runs take."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.tools.statistics.worlds import KINDS, World, score
from tuneloop.core.run_spec import Guard
from tuneloop.core.score import Decision, Score
from tuneloop.tools.statistics import (
    claim,
    compare,
    decide_promotion,
    gain_difference,
    interval,
    pair_scores,
    precision_in,
    smallest_allowance,
    smallest_gain,
)

TRIALS = [
    pytest.param(400, id="short", marks=pytest.mark.slow),
    pytest.param(10_000, id="long", marks=pytest.mark.soak),
]


def error(share: float, trials: int) -> float:
    """Three standard errors of a simulated share."""
    return 3 * math.sqrt(share * (1 - share) / trials)


def related_scores(world: World, count: int) -> list[Score]:
    """Models of one base that all know equally much."""
    skill = world.skill()
    return [score(world.answers(world.related(skill)), world.clusters) for _ in range(count)]


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("kind", KINDS)
def test_equal_model_is_claimed_in_at_most_one_of_forty(kind: str, trials: int) -> None:
    world = World(kind, np.random.default_rng(1))
    found = [claim(*related_scores(world, 2)) for _ in range(trials)]
    assert 0 < sum(one.p_value <= 0.05 for one in found) <= trials * (0.05 + error(0.05, trials))
    assert sum(one.claimed for one in found) <= trials * (0.025 + error(0.025, trials))


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("kind", KINDS)
def test_best_of_ten_equal_candidates_is_not_claimed_more_often(kind: str, trials: int) -> None:
    """The search promotes by validation; the claim rests on other items."""
    world, sealed = (World(kind, np.random.default_rng(seed), units=40) for seed in (2, 8))
    promoted = fooled = 0
    for _ in range(trials // 2):
        base, *candidates = related_scores(world, 11)
        incumbent = base
        for candidate in candidates:
            if decide_promotion(candidate, incumbent).promoted:
                incumbent = candidate
        promoted += incumbent is not base
        fooled += incumbent is not base and claim(*related_scores(sealed, 2)).claimed
    assert promoted > trials // 2 * 0.8
    assert fooled <= trials // 2 * (0.025 + error(0.025, trials // 2))


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("kind", KINDS)
def test_smallest_stated_gain_is_claimed_in_80_percent(kind: str, trials: int) -> None:
    world = World(kind, np.random.default_rng(3), units=100)
    claimed = 0
    for _ in range(trials):
        skill = world.skill()
        base = score(world.answers(skill), world.clusters)
        said = smallest_gain(precision_in(base))
        new = score(world.answers(world.better(skill, said)), world.clusters)
        claimed += claim(new, base).claimed
    assert claimed >= trials * (0.80 - error(0.80, trials))


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("kind", KINDS)
def test_guard_of_smallest_allowance_has_80_percent_power(kind: str, trials: int) -> None:
    world = World(kind, np.random.default_rng(4), units=150)
    kept = 0
    for _ in range(trials):
        skill = world.skill()
        base = score(world.answers(skill), world.clusters)
        equal = score(world.answers(world.related(skill)), world.clusters)
        kept += guarded(equal, base, smallest_allowance(precision_in(base))).promoted
    assert kept >= trials * (0.80 - error(0.80, trials))


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("kind", KINDS)
def test_guard_passes_a_regression_in_at_most_5_percent(kind: str, trials: int) -> None:
    world, points = World(kind, np.random.default_rng(5), units=150), 12.0
    passed = 0
    for _ in range(trials):
        skill = world.skill()
        base = score(world.answers(world.better(skill, points)), world.clusters)
        found = guarded(score(world.answers(skill), world.clusters), base, points)
        assert found.guards[0].able
        passed += found.promoted
    assert passed <= trials * (0.05 + error(0.05, trials))


def guarded(candidate: Score, base: Score, points: float) -> Decision:
    """The decision on a candidate that is surely better at its own benchmark, with a guard of so many points."""
    return decide_promotion(
        score([1.0] * 20),
        score([0.0] * 20),
        guards=[Guard(benchmark="guard", points=points)],
        others={"guard": candidate},
        base={"guard": base},
    )


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("units", [15, 60])
def test_intervals_hold_the_truth_in_at_least_93_cases_of_100(kind: str, units: int, trials: int) -> None:
    world = World(kind, np.random.default_rng(6), units=units)
    scores = gains = 0
    for _ in range(trials):
        skill = world.skill()
        values, others = world.answers(skill), world.answers(world.related(skill))
        low, high = interval(values.tolist(), world.clusters)
        scores += low <= 100 * world.expected() <= high
        found = compare(score(others, world.clusters), score(values, world.clusters))
        gains += found.low <= 0 <= found.high
    assert min(scores, gains) >= trials * (0.93 - error(0.93, trials))


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("kind", KINDS)
def test_equal_halves_differ_in_at_most_5_percent(kind: str, trials: int) -> None:
    """With candidates that were promoted by both halves together."""
    shown, unseen = (World(kind, np.random.default_rng(seed), units=60) for seed in (9, 10))
    suspected = promoted = 0
    for _ in range(trials):
        halves = [pair_scores(*related_scores(world, 2)) for world in (shown, unseen)]
        if sum(half.total for half in halves) <= 0:
            continue
        promoted += 1
        suspected += gain_difference(*halves)[1] > 0
    assert promoted > trials / 3
    assert suspected <= promoted * (0.05 + error(0.05, promoted))


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_shown_half_that_was_learned_is_found(kind: str, trials: int) -> None:
    shown, unseen = (World(kind, np.random.default_rng(seed), units=100) for seed in (11, 12))
    found = 0
    for _ in range(trials):
        base = score(shown.answers(shown.skill()), shown.clusters)
        learned = score([1.0] * base.n, shown.clusters)
        found += gain_difference(pair_scores(learned, base), pair_scores(*related_scores(unseen, 2)))[1] > 0
    assert found == trials
