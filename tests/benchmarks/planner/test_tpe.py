"""Optuna's TPE plays in the same space, is told what was measured, and does the same from the same seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import optuna
import pytest
from planner.simulated_task import SimulatedTask

if TYPE_CHECKING:
    from planner.arena import Arena
    from planner.simulate import Trial


def campaign(simulated: SimulatedTask, seed: int, budget: int = 7) -> Trial:
    from planner.simulate import Trial
    from planner.tpe import TpeSearch

    trial = Trial(simulated, budget, seed)
    TpeSearch(startup=3).play(trial, seed)
    return trial


def test_every_experiment_is_a_point_of_the_space(simulated: SimulatedTask) -> None:
    space = simulated.arena.space
    trial = campaign(simulated, 1)
    points = [point for point in trial.points if point is not None]
    assert len(points) == len(trial.journal) == len(trial.shipped) == 7
    for point in points:
        assert point.sources
        assert (point.rank > 0) == (point.method == "lora")
        assert space.point(space.hypothesis(point)) == (point, ())


def test_the_same_seed_is_the_same_campaign(simulated: SimulatedTask) -> None:
    first, again, other = (campaign(simulated, seed) for seed in (1, 1, 2))
    assert first.journal == again.journal
    assert first.points != other.points


def test_measured_values_are_told_and_failures_as_nothing(
    simulated: SimulatedTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    tell = optuna.Study.tell

    def kept(study: optuna.Study, trial: Any, values: Any = None, **more: Any) -> Any:
        if "state" not in more:
            told.append(values)
        return tell(study, trial, values, **more)

    monkeypatch.setattr(optuna.Study, "tell", kept)
    trial = campaign(simulated, 3)
    assert told == [0.0 if row.value is None else row.value for row in trial.journal]


def test_after_some_values_recipes_with_the_better_source_come_more_often(arena: Arena) -> None:
    from optuna.samplers import TPESampler
    from planner.tpe import next_point

    study = optuna.create_study(direction="maximize", sampler=TPESampler(seed=1, n_startup_trials=10))
    best = arena.space.sources[0].id
    points = []
    for _ in range(40):
        asked, point = next_point(study, arena.space)
        study.tell(asked, 80.0 if point.sources == (best,) else 40.0 if best in point.sources else 1.0)
        points.append(point)
    assert sum(best in p.sources for p in points[20:]) > 15
