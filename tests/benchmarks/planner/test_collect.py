"""Which recipes are run, and how runs are kept: a file a family, whole lines, nothing twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tuneloop.core.score import ItemResult, Score

if TYPE_CHECKING:
    from planner.arena import Arena


def site_of(name: str) -> Any:
    return SimpleNamespace(arena=SimpleNamespace(made=SimpleNamespace(name=name)))


def test_runs_of_two_families_lie_in_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from planner import collect

    monkeypatch.setattr(collect, "untouched", lambda site: {"task": site.arena.made.name, "number": 0, "value": 1.0})
    monkeypatch.setattr(collect, "drawn", lambda _arena, number: number)
    made = lambda site, number, _: {"task": site.arena.made.name, "number": number, "value": 2.0}  # noqa: E731
    monkeypatch.setattr(collect, "run", made)
    for number in (0, 1, 2):
        assert collect.collect(site_of("till9"), number, tmp_path) is not None
        assert collect.collect(site_of("till9"), number, tmp_path) is None
        assert collect.collect(site_of("chains9"), number, tmp_path) is not None
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


def test_no_run_is_begun_when_the_minutes_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    made = collected(monkeypatch, "--collect 60 --tasks choice3 --minutes 2.5")
    assert made == [("choice3", 0), ("choice3", 1), ("choice3", 2)]


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
