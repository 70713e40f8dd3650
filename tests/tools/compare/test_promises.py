"""What acceptance promises, simulated with models of known truth, through the decision that runs take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pytest

from tests.tools.compare.worlds import KINDS, World, score
from tuneloop.core.run import Guard
from tuneloop.core.score import Decision, Score
from tuneloop.tools.compare import decide, interval, pooled, precision_in, share, smallest_allowance, smallest_gain
from tuneloop.tools.compare.intervals import difference_bounds
from tuneloop.tools.compare.units import grouped

TRIALS = [pytest.param(400, id="short"), pytest.param(10_000, id="long", marks=pytest.mark.soak)]


def error(share: float, trials: int) -> float:
    """Three standard errors of a simulated share."""
    return 3 * math.sqrt(share * (1 - share) / trials)


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_equal_model_is_accepted_in_at_most_one_case_of_twenty(kind: str, trials: int) -> None:
    world = World(kind, np.random.default_rng(1))
    accepted = 0
    for _ in range(trials):
        skill = world.skill()
        new, old = (score(world.answers(s), world.clusters) for s in (world.related(skill), world.related(skill)))
        accepted += decide(new, old, share(1)).accepted
    assert 0 < accepted <= trials * (0.05 + error(0.05, trials))


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("planned", [10, None])
def test_the_best_of_ten_equal_candidates_is_accepted_in_at_most_one_run_of_twenty(
    kind: str, planned: int | None, trials: int
) -> None:
    assert_rarely_fooled(World(kind, np.random.default_rng(2), units=40), trials // 2, planned)


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("kind", KINDS)
def test_who_adds_experiments_until_one_is_accepted_is_fooled_in_at_most_one_run_of_twenty(
    kind: str, trials: int
) -> None:
    """Four are planned; while the last of them is open and none was accepted, six more are asked for, two at a time."""
    assert_rarely_fooled(World(kind, np.random.default_rng(7), units=40), trials // 2, 4, added={4: 2, 6: 2, 8: 2})


def assert_rarely_fooled(world: World, runs: int, planned: int | None, added: Mapping[int, int] | None = None) -> None:
    """Of ten candidates that are as good as the base, one is accepted in at most one run of twenty."""
    fooled = 0
    for _ in range(runs):
        skill = world.skill()
        base = score(world.answers(world.related(skill)), world.clusters)
        candidates = (score(world.answers(world.related(skill)), world.clusters) for _ in range(10))
        fooled += any(found.accepted for found in judged(candidates, base, planned, added))
    assert fooled <= runs * (0.05 + error(0.05, runs))


def judged(
    candidates: Iterable[Score], base: Score, planned: int | None, added: Mapping[int, int] | None = None
) -> Iterator[Decision]:
    """The decisions of a run; `added`: experiments asked for while the n-th was open."""
    spent = list[int]()
    for n, new in enumerate(candidates, 1):
        planned = planned and planned + (added or {}).get(n, 0)
        if planned is not None and n > planned:
            return
        spent.append(share(planned and planned - n + 1, spent))
        yield decide(new, base, spent[-1])


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("candidates", [1, 10])
def test_a_gain_of_the_stated_smallest_size_is_accepted_four_times_in_five(
    kind: str, candidates: int, trials: int
) -> None:
    world = World(kind, np.random.default_rng(3), units=100)
    accepted = 0
    for _ in range(trials):
        skill = world.skill()
        base = score(world.answers(skill), world.clusters)
        said = smallest_gain(precision_in(base), candidates)
        new = score(world.answers(world.better(skill, said)), world.clusters)
        accepted += decide(new, base, candidates).accepted
    assert accepted >= trials * (0.80 - error(0.80, trials))


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_guard_of_the_stated_smallest_allowance_keeps_an_equal_model_four_times_in_five(
    kind: str, trials: int
) -> None:
    world = World(kind, np.random.default_rng(4), units=150)
    kept = 0
    for _ in range(trials):
        skill = world.skill()
        base = score(world.answers(skill), world.clusters)
        equal = score(world.answers(world.related(skill)), world.clusters)
        kept += guarded(equal, base, smallest_allowance(precision_in(base))).accepted
    assert kept >= trials * (0.80 - error(0.80, trials))


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_forgot_what_is_allowed_passes_its_guard_in_at_most_one_case_of_twenty(
    kind: str, trials: int
) -> None:
    world, points = World(kind, np.random.default_rng(5), units=150), 12.0
    passed = 0
    for _ in range(trials):
        skill = world.skill()
        base = score(world.answers(world.better(skill, points)), world.clusters)
        found = guarded(score(world.answers(skill), world.clusters), base, points)
        assert found.guards[0].able
        passed += found.accepted
    assert passed <= trials * (0.05 + error(0.05, trials))


def guarded(candidate: Score, base: Score, points: float) -> Decision:
    """The decision on a candidate that is surely better at its own benchmark, with a guard of so many points."""
    return decide(
        score([1.0] * 20),
        score([0.0] * 20),
        1,
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
        below, above = difference_bounds(grouped((others - values).tolist(), world.clusters), 0.025)
        gains += below <= 0 <= above
    assert min(scores, gains) >= trials * (0.93 - error(0.93, trials))


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_lucky_seed_is_outvoted(kind: str, trials: int) -> None:
    world = World(kind, np.random.default_rng(7), units=60)
    lucky = outvoted = 0
    for _ in range(trials):
        skill = world.skill()
        base = score(world.answers(skill), world.clusters)
        shifts = world.rng.normal(0, 8, 3)  # points by which a training happens to be better or worse
        seeds = [score(world.answers(world.shifted(skill, s)), world.clusters) for s in shifts]
        if decide(seeds[0], base, 1).accepted:
            lucky += 1
            outvoted += not decide(pooled(seeds), base, 1).accepted
    assert outvoted > lucky / 3
