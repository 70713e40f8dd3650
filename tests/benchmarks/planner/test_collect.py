"""Which recipes are run, and how runs are kept: a file a family, whole lines, nothing twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tuneloop.core.score import ItemResult, Score

if TYPE_CHECKING:
    from planner.arena import Arena


def site_of(name: str) -> Any:
    return SimpleNamespace(arena=SimpleNamespace(made=SimpleNamespace(name=name)))


def test_runs_of_two_families_lie_in_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from planner import collect

    monkeypatch.setattr(collect, "untouched", lambda site: {"task": site.arena.made.name, "number": 0, "value": 1.0})
    made = lambda site, number, _: {"task": site.arena.made.name, "number": number, "value": 2.0}  # noqa: E731
    monkeypatch.setattr(collect, "run", made)
    recipe = lambda _arena, number: number  # noqa: E731
    for number in (0, 1, 2):
        assert collect.collect(site_of("till9"), number, tmp_path, recipe) is not None
        assert collect.collect(site_of("till9"), number, tmp_path, recipe) is None
        assert collect.collect(site_of("chains9"), number, tmp_path, recipe) is not None
    found = [(row["task"], row["number"]) for row in collect.known(tmp_path)]
    assert found == [(task, n) for task in ("chains9", "till9") for n in (0, 1, 2)]


def test_lines_stay_whole_and_single_when_several_append(tmp_path: Path) -> None:
    from planner.collect import append, known

    rows = [{"task": "till9", "number": n % 20, "items": "0" * 9000} for n in range(60)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda row: append(tmp_path / "till.jsonl", row), rows))
    assert sorted(row["number"] for row in known(tmp_path)) == list(range(20))


def test_one_recipe_in_four_is_from_the_whole_space(letters: Arena) -> None:
    from planner.collect import NEAR_STEPS, drawn
    from planner.space import STYLES

    points = {number: drawn(letters, number) for number in range(1, 41)}
    assert points == {number: drawn(letters, number) for number in range(1, 41)}
    near = [p for number, p in points.items() if number % 4 != 1]
    assert all(p.style in STYLES[1:3] and p.steps >= NEAR_STEPS for p in near)
    assert {p.style for number, p in points.items() if number % 4 == 1} - set(STYLES[1:3])


def test_after_sixty_recipes_lie_about_the_policys_first(letters: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    from planner import collect
    from planner.collect import DRAWN, drawn, first_recipe

    said = [{"prediction": "1+2=3\n3+4=7"}] * 3
    monkeypatch.setattr(collect, "known", lambda: [{"task": letters.made.name, "number": 0, "failures": said}])
    first = first_recipe(letters)
    assert drawn(letters, DRAWN + 1) == first
    near = [drawn(letters, number) for number in range(DRAWN + 2, DRAWN + 42)]
    assert near == [drawn(letters, number) for number in range(DRAWN + 2, DRAWN + 42)] and len({*near, first}) > 30
    changed = [
        sum(getattr(p, name) != getattr(first, name) for name in ("sources", "style", "votes", "steps")) for p in near
    ]
    toggled = [len(set(p.does) ^ set(first.does)) for p in near]
    assert 0.3 < np.mean(changed) < 1.5 and 0.5 < np.mean(toggled) < 3
    assert all((p.rank == 0) == (p.method == "full") for p in near)


def collected(monkeypatch: pytest.MonkeyPatch, words: str) -> list[tuple[str, int]]:
    """What the script runs, with sites that take no time and runs that take a minute each."""
    import planner_bench

    made: list[tuple[str, int]] = []

    def collect(name: str, number: int) -> dict[str, Any]:
        made.append((name, number))
        return {"task": name, "number": number, "value": 1.0}

    monkeypatch.setattr(planner_bench, "home", lambda folder: folder)
    monkeypatch.setattr(planner_bench, "site", lambda name, _home: nullcontext(name))
    monkeypatch.setattr(planner_bench, "collect", collect)
    monkeypatch.setattr("sys.argv", ["planner_bench.py", *words.split()])
    planner_bench.more_runs(planner_bench.arguments(), lambda: 60.0 * len(made))
    return made


def test_all_families_are_collected_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    from planner.made_task import family
    from planner.tasks import FAMILIES

    made = collected(monkeypatch, "--collect 2")
    assert {family(name) for name, _ in made} == set(FAMILIES)
    assert [number for _, number in made] == [0] * 4 + [1] * 4 + [2] * 4


@pytest.mark.parametrize("name", ["nope3", "till"])
def test_a_task_that_does_not_exist_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    import planner_bench

    monkeypatch.setattr("sys.argv", ["planner_bench.py", "--tasks", "till3", name])
    with pytest.raises(SystemExit) as ended:
        planner_bench.arguments()
    assert ended.value.code == 2
    assert f"--tasks: {name}; right is a family and a seed" in capsys.readouterr().err


def test_no_run_is_begun_when_the_minutes_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    made = collected(monkeypatch, "--collect 60 --tasks choice3 --minutes 2.5")
    assert made == [("choice3", 0), ("choice3", 1), ("choice3", 2)]


def test_short_ones_are_recorded_recipes_from_worst_to_best(monkeypatch: pytest.MonkeyPatch) -> None:
    import planner_bench

    rows = [{"task": "till3", "number": n, "value": 90.0 - n} for n in range(1, 10)]
    rows += [{"task": "till3", "number": 0, "value": 1.0}, {"task": "till3", "number": 99, "failure": "no rows"}]
    monkeypatch.setattr(planner_bench, "known", lambda: rows)
    monkeypatch.setattr("sys.argv", ["planner_bench.py", "--short", "3"])
    found = list(planner_bench.numbers(planner_bench.arguments(), ["till3", "choice3"]))
    assert found == [("till3", 9), ("till3", 5), ("till3", 1)]


def test_a_recorded_recipe_is_shortened(letters: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    from planner import collect

    point = collect.drawn(letters, 3)
    row = {"task": letters.made.name, "number": 3, "point": point.dumped()}
    monkeypatch.setattr(collect, "known", lambda: [row])
    short = collect.shortened(letters, 3)
    assert short.steps == round(point.steps / 4) and replace(short, steps=point.steps) == point


def test_ranks_agree_where_the_order_does(monkeypatch: pytest.MonkeyPatch) -> None:
    from planner import short

    assert short.ranks(np.array([5.0, 1.0, 5.0, 9.0])).tolist() == [1.5, 0.0, 1.5, 3.0]
    whole: list[dict[str, Any]] = [
        {"task": "till3", "number": n, "value": v} for n, v in enumerate([10.0, 30.0, 20.0, 60.0, 50.0])
    ]
    quarter = [{**row, "value": row["value"] ** 2} for row in whole[:-1]]
    monkeypatch.setattr(short, "known", lambda _folder: quarter)
    [found] = short.agreements(whole)
    assert (found.family, found.runs) == ("till", 4)
    assert found.rho == pytest.approx(1.0)
    assert short.rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])) == pytest.approx(-1.0)


def test_all_items_are_kept_those_that_agents_do_not_see_included() -> None:
    from planner.collect import outcome

    def item(name: str, *, correct: bool) -> ItemResult:
        return ItemResult(id=name, prediction="Answer: A", parsed="A", answer="A" if correct else "B", correct=correct)

    shown, unseen = (item("validation-001", correct=False),), (item("validation-000", correct=True),)
    score = Score(
        benchmark="b", split="validation", metric="accuracy", value=50.0, low=0, high=100, n=2, parsed=100.0,
        items=shown, unseen=unseen,
    )  # fmt: skip
    found = outcome(score, 96, 5)
    assert found["items"] == "10"
    assert [failed["id"] for failed in found["failures"]] == ["validation-001"]
