"""Rows, page and plot of the planner bench; the real runs that are checked in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tuneloop.core.experiment import Critique, Experiment, Feedback, Hypothesis


def curves(mean: float):
    from planner.regret import BUDGET, Curve

    return lambda player, task: Curve(player, task, np.full((5, BUDGET), mean), np.arange(5.0) % 2)


def one():
    from planner.play import Played
    from planner.space import Point

    point = Point(("a",), "compact", "none", (), "full", 1e-3, 100, 0)
    both = (curves(0.4)("random search", "till9"), curves(0.1)("offline policy", "till9"))
    return Played("till9", 0.8, point, 0.0, both, (), ())


def fitted():
    from planner.play import Fitted

    return Fitted((), 3, 0.7, 0.08, 0.05, 0.11)


def test_rows_are_as_those_of_the_other_benchmarks() -> None:
    from planner.report import rows

    found = rows([one()], fitted())
    assert all(list(row) == ["name", "value", "unit", "goal", "ok"] and "regret" in row["name"] for row in found)
    [decides] = [row for row in found if "/" in row["name"]]
    assert (decides["value"], decides["goal"], decides["ok"]) == (0.25, "<= 0.5", True)
    assert sum("offline policy, till" in row["name"] for row in found) == 5


def test_the_page_keeps_what_people_wrote(tmp_path: Path) -> None:
    from planner.play import Extent
    from planner.report import draw, told, write_page

    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured -->\nearlier numbers\n<!-- end -->\nafter\n")
    write_page(page, told([one()], fitted(), None, Extent()))
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "earlier" not in text
    assert "| offline policy / random search | 0.25 |" in text
    page.write_text("no marks")
    with pytest.raises(ValueError, match="measured"):
        write_page(page, "x")
    for name in ("a.svg", "b.svg"):
        draw(tmp_path / name, [one()])
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_the_checked_in_runs_are_whole() -> None:
    from planner.collect import known
    from planner.made_task import family
    from planner.space import loaded
    from planner.tasks import FAMILIES

    runs = known()
    names = [(run["task"], run["number"]) for run in runs]
    assert len(names) == len(set(names))
    there = {family(run["task"]) for run in runs}
    assert {"stories", "till"} <= there <= set(FAMILIES)
    for task in there:
        mine = [run for run in runs if family(run["task"]) == task]
        assert [run["number"] for run in mine].count(0) == 1
        assert sum("value" in run for run in mine) >= 12 or task not in {"stories", "till"}
    for run in runs:
        assert len(run.get("items", "0" * 200)) == 200
        if run["number"]:
            assert loaded(run["point"]).dumped() == {
                **run["point"],
                **{k: tuple(run["point"][k]) for k in ("sources", "does")},
            }


def test_real_experiments_are_told_beside_each_other() -> None:
    from planner.real import Real, shipped
    from planner.report import real_table

    assert shipped([None, 50.0, 40.0], 1.0) == [1.0, 50.0, 50.0]
    lines = list(real_table(Real("till9", (), ({"failure": "no row"},))))
    assert "Real experiments on till9" in lines[0]
    experiment = Experiment(
        number=1,
        hypothesis=Hypothesis(statement="s", reason="r", disproof="d", aspect="first"),
        feedback=Feedback(promoted=False, critique=Critique(explanation="e", lesson="l")),
    )
    assert list(real_table(Real("till9", (experiment,), ({"value": 61.0},))))[-1] == (
        "| 1 | failed (best 0.0) | 61.0 (best 61.0) |"
    )
