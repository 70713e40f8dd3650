"""Items planted in training rows by another hand than the guard's: nearly all are found, and nearly nothing else is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.tools.contamination.dress import EDITS, OF_ITEMS, edited, opened, row
from tests.tools.contamination.items import Made, make, twin
from tuneloop.tools.contamination.guard import Guard
from tuneloop.tools.contamination.probes import KnownItem, KnownSplit

ALL = (*EDITS, *OF_ITEMS)
ITEMS = make(41, 400)
SPLITS: tuple[KnownSplit, ...] = ("validation", "test", "validation", "unseen")


@pytest.fixture(scope="module")
def guard() -> Guard:
    """Three benchmarks, all splits of each."""
    return Guard([KnownItem(f"b{i % 3}", SPLITS[i % 4], str(i), m.fields, m.answer) for i, m in enumerate(ITEMS)])


def flagged(guard: Guard, rows: Sequence[Any]) -> float:
    return sum(hit is not None for hit in guard.find(rows)) / len(rows)


@pytest.mark.parametrize("edit", ALL)
def test_what_is_planted_is_found_under_every_light_edit(guard: Guard, edit: str) -> None:
    rng = random.Random(edit)
    assert flagged(guard, [row(edited(made, edit, rng), rng) for made in ITEMS]) >= 0.99


def test_recall_is_99_percent_with_1_percent_false_flags(guard: Guard) -> None:
    rng = random.Random(43)
    planted = [row(edited(made, rng.choice(ALL), rng), rng) for made in ITEMS * 3]
    twice = [row(edited(edited(made, rng.choice(ALL), rng), rng.choice(ALL), rng), rng) for made in ITEMS]
    answered = [opened(edited(made, rng.choice(ALL), rng), rng) for made in ITEMS if made.kind == "choice"]
    assert flagged(guard, [*planted, *twice, *answered]) >= 0.99
    assert flagged(guard, answered) >= 0.97
    clean = make(44, 1200, frozenset(made.facts for made in ITEMS))
    assert flagged(guard, [row(edited(made, rng.choice(ALL), rng), rng) for made in clean]) <= 0.01


def test_same_template_with_other_numbers_is_no_overlap(guard: Guard) -> None:
    rng = random.Random(45)
    twins: list[Made] = [twin(made, rng) for made in ITEMS for _ in range(2)]
    assert flagged(guard, [row(edited(made, rng.choice(ALL), rng), rng) for made in twins]) <= 0.01


def test_hit_names_item_only_for_shown_validation(guard: Guard) -> None:
    rng = random.Random(46)
    hits = list(guard.find([row(made, rng) for made in ITEMS[:200]]))
    told = [(hit.benchmark, hit.split, hit.id) for hit in hits if hit]
    expected = [(f"b{i % 3}", SPLITS[i % 4], None if i % 2 else str(i)) for i in range(200)]
    assert sum(a == b for a, b in zip(told, expected, strict=True)) >= 198
    assert all((hit.id is None) == (hit.split != "validation") for hit in hits if hit)
