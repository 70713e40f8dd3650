"""Optuna's TPE as a player: a recipe is asked for one experiment at a time, its measured value is told."""

from __future__ import annotations

import optuna
from optuna.samplers import TPESampler
from optuna.trial import TrialState

from planner.simulate import Trial
from planner.space import RANKS, RATES, STEPS, STYLES, VOTES, Point, Space
from tuneloop.agents.policy.parameter_map import FULL, LORA
from tuneloop.core.experiment import Critique

STARTUP = 4  # recipes drawn at random before the first that is modelled; Optuna's own ten would be more than a budget
FAILED = 0.0  # what a recipe that broke is told as


class TpeSearch:
    """The tree-structured Parzen estimator over the recipe space, with Optuna's own settings but for STARTUP."""

    name = "TPE"

    def __init__(self, startup: int = STARTUP) -> None:
        self._startup = startup

    def play(self, trial: Trial, seed: int) -> None:
        """Ask, measure, tell, until the budget is spent."""
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = TPESampler(seed=seed, n_startup_trials=self._startup)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        space = trial.simulated.arena.space
        for _ in range(trial.budget):
            asked, point = next_point(study, space)
            found = trial.experiment(point)
            study.tell(asked, FAILED if found is None else found[0].value)
            trial.close(space.hypothesis(point), found, Critique(explanation="", lesson=""))


def next_point(study: optuna.Study, space: Space) -> tuple[optuna.Trial, Point]:
    """The next recipe; one without a source is not in the space: it is told as pruned and costs nothing."""
    while True:
        asked = study.ask()
        point = suggested(asked, space)
        if point.sources:
            return asked, point
        study.tell(asked, state=TrialState.PRUNED)


def suggested(asked: optuna.Trial, space: Space) -> Point:
    """The point of the sampler's values; a rank is asked for adapters alone."""
    sources = tuple(s.id for s in space.sources if asked.suggest_categorical(f"source {s.id}", (False, True)))
    method = asked.suggest_categorical("method", (FULL, LORA))
    return Point(
        sources=sources,
        style=asked.suggest_categorical("style", STYLES),
        votes=asked.suggest_categorical("votes", VOTES),
        does=tuple(do for do in space.turned if asked.suggest_categorical(do, (False, True))),
        method=method,
        rate=float(f"{asked.suggest_float('rate', *RATES, log=True):.3g}"),
        steps=asked.suggest_int("steps", *STEPS, log=True),
        rank=asked.suggest_categorical("rank", RANKS) if method == LORA else 0,
    )
