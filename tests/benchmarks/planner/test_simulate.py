"""A simulated campaign: the loop's own verdicts, and nothing that a real one would not tell."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tuneloop.agents.critic import CRITIC
from tuneloop.agents.researcher import RESEARCHER
from tuneloop.core.brief import Brief
from tuneloop.core.errors import ToolError

if TYPE_CHECKING:
    from planner.players import Player
    from planner.simulate import Trial
from planner.simulated_task import SimulatedTask


def players(simulated: SimulatedTask) -> list[Player]:
    from planner.players import RandomSearch, offline

    rng = Random(8)
    return [RandomSearch([simulated.arena.space.draw(rng) for _ in range(6)]), offline()]


def trials(simulated: SimulatedTask, count: int = 2) -> list[tuple[str, list[Trial]]]:
    from planner.regret import played

    return [(player.name, played(simulated, player, range(1, count + 1), budget=4)) for player in players(simulated)]


def test_what_is_shipped_changes_when_the_loop_promotes(simulated: SimulatedTask) -> None:
    for _, many in trials(simulated):
        for trial in many:
            before = trial.simulated.base["value"] / 100
            for row, value in zip(trial.journal, trial.shipped, strict=False):
                assert (row.outcome == "promoted") or value == before
                assert (row.outcome == "promoted") == (row.gain is not None and row.gain > 0)
                assert (row.outcome == "failed") == (row.gain is None)
                before = value
            assert len(trial.shipped) == 4


def test_regret_is_between_nothing_and_everything(simulated: SimulatedTask) -> None:
    from planner.regret import best_of, curve

    found = trials(simulated)
    seen = [p for _, many in found for t in many for p in t.points if p]
    best, _ = best_of(simulated, seen, seen, candidates=200)
    for name, many in found:
        c = curve(name, "till77", many, best, 0.01)
        assert ((c.regrets >= -1e-9) & (c.regrets <= 1)).all()
        low, high = c.interval(4)
        assert low <= c.mean(4) <= high


def test_the_same_seed_is_the_same_campaign(simulated: SimulatedTask) -> None:
    first, second = trials(simulated), trials(simulated)
    for (_, a), (_, b) in zip(first, second, strict=True):
        assert [t.journal for t in a] == [t.journal for t in b]


def test_only_what_agents_may_ask_is_answered(simulated: SimulatedTask) -> None:
    from planner.simulate import Trial

    trial = Trial(simulated, 4, 1)
    names = set(asyncio.run(trial.names())) - {"params_check_config"}
    assert names <= {*RESEARCHER.tools, *CRITIC.tools}
    point = simulated.arena.space.draw(Random(9))
    assert trial.experiment(point) is not None
    for tool in ("evaluation_explain_failures", "data_report", "training_loss_curve"):
        assert asyncio.run(trial.call(tool, experiment=1))
        with pytest.raises(ToolError):
            asyncio.run(trial.call(tool, experiment=2))
    with pytest.raises(ToolError):
        asyncio.run(trial.call("evaluation_evaluate", experiment=1))


def test_a_brief_tells_measured_values_alone(simulated: SimulatedTask) -> None:
    _, many = trials(simulated, 1)[1]
    brief = many[0].brief
    assert Brief.model_validate_json(brief.model_dump_json()) == brief
    counts = [row.value * 2 for row in brief.journal if row.value is not None]
    assert counts, "nothing was measured"
    assert np.allclose(counts, np.round(counts)), "a share of 200 items, not the surface's own number"
    told = brief.model_dump_json()
    truths = [simulated.truth(p) for p in many[0].points if p]
    assert not any(json.dumps(t.score) in told for t in truths if t)


def test_noise_is_that_of_items(simulated: SimulatedTask) -> None:
    from planner.simulate import Trial

    point = next(
        p
        for p in (simulated.arena.space.draw(Random(i)) for i in range(40))
        if (t := simulated.truth(p)) and t.score > 0.3
    )
    truth = simulated.truth(point)
    assert truth is not None
    values = []
    for seed in range(80):
        found = Trial(simulated, 4, seed).experiment(point)
        assert found is not None
        values.append(found[0].value / 100)
    assert abs(float(np.mean(values)) - truth.score) < 0.05
    assert 0.02 < float(np.std(values)) < 0.2
