"""What the surface claims is trained for real: each recipe once, whoever claims it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from planner.simulated_task import SimulatedTask

from tuneloop.agents.policy.move_table import MoveTable
from tuneloop.core.layout import RunFolder


def bench_of(simulated: SimulatedTask, run: RunFolder) -> Any:
    """The parts of a bench that are asked, over a made-up surface."""
    rng = Random(3)
    points = [simulated.arena.space.draw(rng) for _ in range(4)]
    return SimpleNamespace(
        at=lambda _: (SimpleNamespace(arena=simulated.arena, ctx=SimpleNamespace(run=run)), simulated.row_maker),
        table=lambda _: MoveTable(),
        data=lambda *_: points,
        base=lambda _: simulated.base,
    )


def test_each_recipe_is_trained_once_and_keeps_what_was_claimed(
    simulated: SimulatedTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from planner import regret, verify

    monkeypatch.setattr(verify, "TRIALS", 1)
    monkeypatch.setattr(verify, "best_of", lambda task, data, seen: regret.best_of(task, data, seen, 50))
    place, trained = RunFolder(tmp_path), []
    place.experiment(2001).root.mkdir(parents=True)  # of a verification that was cut short, with another recipe

    def run(_site: Any, number: int, point: Any) -> dict[str, Any]:
        assert not place.experiment(number).root.exists()
        trained.append((number, point))
        return {"value": 55.0} if number == 2001 else {"failure": "no rows"}

    monkeypatch.setattr(verify, "run", run)
    surfaces = [simulated.surface, simulated.surface]
    found = [*verify.verify(bench_of(simulated, place), "till77", surfaces)]
    points = [point for _, point in trained]
    assert len(set(points)) == len(points) == len(found)
    assert [one.real for one in found] == [55.0, *[None] * (len(found) - 1)]
    said = [claim for one in found for claim in one.claims]
    assert len(said) == 6, "three of each surface"
    shipped = {claim.surface: claim.score for claim in said if claim.what == verify.SHIPPED}
    assert all(claim.score <= shipped[claim.surface] for claim in said if claim.what == verify.FIRST)
    assert all(claim.score >= shipped[claim.surface] for claim in said if claim.what == verify.BEST)
    line = verify.told("till77", found[0])
    assert line.startswith("| till77 | the policy's first, ")
    assert line.endswith(" | 55.0 |")
