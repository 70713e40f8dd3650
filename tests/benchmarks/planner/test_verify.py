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
    assert all(claim.score >= shipped[claim.surface] for claim in said if claim.what == verify.TOP)
    line = verify.told("till77", found[0])
    assert line.startswith("| till77 | the policy's first, ")
    assert line.endswith(" | 55.0 |")


def test_what_the_surface_calls_best_becomes_one_of_its_runs(
    simulated: SimulatedTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from planner import collect, regret, verify
    from planner.play import Bench

    arena, rng = simulated.arena, Random(3)
    name = arena.made.name
    points = [arena.space.draw(rng) for _ in range(4)]
    runs = [
        {**one, "task": name, "number": i, "point": arena.space.draw(rng).dumped()}
        for i, one in enumerate(simulated.surface.runs, 1)
    ]
    bench = Bench([{"task": name, "number": 0, **simulated.base}, *runs], None, None, print)  # type: ignore[arg-type]
    site: Any = SimpleNamespace(arena=arena)
    monkeypatch.setattr(bench, "_open", {name: (site, simulated.row_maker)})
    monkeypatch.setattr(bench, "data", lambda *_: points)
    monkeypatch.setattr(verify, "RUNS", tmp_path)
    monkeypatch.setattr(verify, "NEAR", 3)
    monkeypatch.setattr(verify, "beside_first", lambda arena, rng: arena.space.draw(rng))
    monkeypatch.setattr(verify, "best_of", lambda task, data, seen: regret.best_of(task, data, seen, 50))
    worst = {k: runs[0][k] for k in ("parsed", "training", "failures")} | {"value": 0.0}
    broken = {"failure": "no rows"}
    outcomes = [worst, worst, broken]

    def run(_site: Any, number: int, point: Any) -> dict[str, Any]:
        return {"task": name, "number": number, "point": point.dumped(), **outcomes.pop(0)}

    monkeypatch.setattr(collect, "run", run)
    found = [verify.record_best(bench, name) for _ in range(4)]
    claims, rows = zip(*(one for one in found[:3] if one), strict=True)
    assert [row["number"] for row in rows] == [collect.BEST + 1, collect.BEST + 2, collect.BEST + 3]
    assert rows[0]["point"] != rows[1]["point"], "it is not called best any more"
    assert claims[1] < claims[0]
    assert found[3] is None, "what broke taught the surface nothing: it is called best again"
    assert collect.known(tmp_path) == [{**row, "point": _listed(row["point"])} for row in rows]
    assert len(bench.good) == len(bench.x) == len(runs) + 2


def _listed(point: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in point.items()}
