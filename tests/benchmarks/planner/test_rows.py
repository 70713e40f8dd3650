"""The rows from which features are made are those that the policy's script writes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.agents.policy.conftest import World as Tools
from tuneloop.agents.policy.rows import alpaca
from tuneloop.agents.policy.script_composer import FORM, form_entry
from tuneloop.core.experiment import Step

if TYPE_CHECKING:
    from planner.arena import Arena
    from planner.rows import Made, RowMaker


def test_rows_are_those_of_the_script(arena: Arena, row_maker: RowMaker, tools: Tools) -> None:
    rng = Random(6)
    point = next(p for p in iter(lambda: arena.space.draw(rng), None) if row_maker.stats(p).rows > 20)
    task = form_entry(row_maker.form, (Step(do=FORM),))
    script = tools.script(arena.space.hypothesis(point), task=arena.brief.task)
    assert tools.run(script.code) == [alpaca(row, task) for row in row_maker.rows(point)]


def test_wrong_rows_are_known_by_the_generators_key(arena: Arena, row_maker: RowMaker) -> None:
    from planner.space import Point

    def wrong(source: str, votes: str) -> float:
        point = Point((f"{arena.data.name}/{source}",), "own_words", votes, (), "full", 1e-3, 100, 0)
        return row_maker.stats(point).wrong

    assert wrong("receipts.csv", "none") > 0.3
    assert wrong("tutors.jsonl", "voted") < wrong("tutors.jsonl", "none") < 0.3


def test_styles_are_told_apart(arena: Arena, row_maker: RowMaker) -> None:
    from planner.space import Point

    name = (f"{arena.data.name}/receipts.csv",)
    looks = {
        s: row_maker.stats(Point(name, s, "none", (), "full", 1e-3, 100, 0)) for s in ("own_words", "compact", "spaced")
    }
    assert looks["own_words"].prose > 0.95
    assert looks["compact"].compact > 0.95
    assert looks["spaced"].spaced > 0.95


def test_letters_are_wrong_and_one_sided_by_the_generators_key(letters: Arena) -> None:
    from planner.rows import RowMaker
    from planner.space import Point

    maker = RowMaker(letters)

    def made(source: str, *does: str) -> Made:
        return maker.stats(Point((f"{letters.data.name}/{source}",), "own_words", "none", does, "full", 1e-3, 100, 0))

    assert made("workbook.jsonl").wrong == 0
    assert made("workbook.jsonl").lean < 0.1
    exam = made("exam.csv")
    assert exam.wrong > 0.25
    assert exam.lean > 0.25
    assert made("exam.csv", "balance_answers").lean < exam.lean
    assert made("exam.csv", "drop_unlikely_labels").rows < exam.rows


def test_padded_solutions_are_too_long_until_they_are_shortened(padded: Arena) -> None:
    from planner.rows import RowMaker
    from planner.space import Point

    maker = RowMaker(padded)
    name = (f"{padded.data.name}/journal.jsonl",)
    looks = {s: maker.stats(Point(name, s, "none", (), "full", 1e-3, 100, 0)) for s in ("own_words", "compact")}
    assert looks["own_words"].overlong > 0.95
    assert looks["compact"].overlong == 0
    assert looks["compact"].lean == looks["own_words"].lean == 0
