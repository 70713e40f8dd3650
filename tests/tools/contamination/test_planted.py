"""Items planted in training rows by another hand than the guard's: nearly all are found, and nearly nothing else is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.tools.contamination.dress import EDITS, edited, opened, row
from tests.tools.contamination.families import FAMILIES, fits, item_text, planted
from tests.tools.contamination.items import make, renamed, twin
from tuneloop.tools.contamination.guard import Guard
from tuneloop.tools.contamination.probes import KnownItem, KnownSplit

ITEMS = make(41, 400)
LONG = [made for made in ITEMS if fits(made, "case")]
SPLITS: tuple[KnownSplit, ...] = ("validation", "test", "validation", "unseen")
FORMS = [(family, number) for family, forms in FAMILIES.items() for number in range(len(forms))]


@pytest.fixture(scope="module")
def guard() -> Guard:
    """Three benchmarks, all splits of each."""
    return Guard([KnownItem(f"b{i % 3}", SPLITS[i % 4], str(i), m.fields, m.answer) for i, m in enumerate(ITEMS)])


def flagged(guard: Guard, rows: Sequence[Any]) -> float:
    return sum(hit is not None for hit in guard.find(rows)) / len(rows)


@pytest.mark.parametrize(("family", "form"), FORMS)
def test_items_are_found_in_every_form_of_every_mechanical_family(guard: Guard, family: str, form: int) -> None:
    rng = random.Random(f"{family} {form}")
    known = [made for made in ITEMS if fits(made, family)][: 60 if family == "padding" else None]
    rows = [planted(FAMILIES[family][form](item_text(made), rng), made, rng) for made in known]
    assert flagged(guard, rows) >= 0.99


@pytest.mark.parametrize("edit", EDITS)
def test_light_edits_in_any_shape_of_row(guard: Guard, edit: str) -> None:
    rng = random.Random(edit)
    assert flagged(guard, [row(edited(made, edit, rng), rng) for made in LONG]) >= 0.99


def test_two_disguises_at_once(guard: Guard) -> None:
    rng = random.Random(43)
    forms = [form for family in ("case", "spacing", "punctuation", "look-alike letters") for form in FAMILIES[family]]
    texts = [(rng.choice(forms)(rng.choice(forms)(item_text(made), rng), rng), made) for made in LONG]
    assert flagged(guard, [planted(text, made, rng) for text, made in texts]) >= 0.99


def test_a_choice_with_its_right_option_alone(guard: Guard) -> None:
    rng = random.Random(44)
    asked = [opened(edited(made, rng.choice(list(EDITS)), rng), rng) for made in ITEMS if made.kind == "choice"]
    assert flagged(guard, asked) >= 0.97


def test_rows_of_the_same_templates_are_not_flagged(guard: Guard) -> None:
    rng = random.Random(45)
    clean = make(44, 3000, frozenset(made.facts for made in ITEMS))
    assert flagged(guard, [row(edited(made, rng.choice(list(EDITS)), rng), rng) for made in clean]) <= 0.001


def test_one_number_name_or_fact_makes_another_item(guard: Guard) -> None:
    rng = random.Random(46)
    known = {item_text(made) for made in ITEMS}
    twins = [twin(made, rng) for made in ITEMS for _ in range(3)]
    twins += [renamed(made, rng) for made in ITEMS if made.names]
    assert flagged(guard, [row(made, rng) for made in twins if item_text(made) not in known]) <= 0.001


def test_hit_names_item_only_for_shown_validation(guard: Guard) -> None:
    rng = random.Random(47)
    hits = list(guard.find([planted(item_text(made), made, rng) for made in LONG]))
    expected = [(f"b{i % 3}", SPLITS[i % 4], None if i % 2 else str(i)) for i in map(ITEMS.index, LONG)]
    told = [(hit.benchmark, hit.split, hit.id) if hit else None for hit in hits]
    assert sum(a == b for a, b in zip(told, expected, strict=True)) >= 0.99 * len(LONG)
    assert all((hit.id is None) == (hit.split != "validation") for hit in hits if hit)
