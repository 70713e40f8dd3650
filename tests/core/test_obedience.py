"""Recipes and wishes: what is broken, what is nearest, which data may be read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.core.directive import Avoid, Bound, Keep, Sources, Use, Wish
from tuneloop.core.obedience import allowed, breaches, obeyed

LORA: dict[str, Any] = {"finetuning_type": "lora", "learning_rate": 2e-4, "lora_rank": 8, "num_train_epochs": 3.0}


@pytest.mark.parametrize(
    ("wish", "changes"),
    [
        (Use(parameter="lora_rank", value=32), {"lora_rank": 32}),
        (Bound(parameter="learning_rate", at_most=1e-4), {"learning_rate": 1e-4}),
        (Bound(parameter="lora_rank", at_least=16), {"lora_rank": 16}),
        (Keep(parameter="learning_rate"), {"learning_rate": 5e-5}),
        (Avoid(parameter="finetuning_type", value="lora"), {"finetuning_type": "full"}),
        (Avoid(parameter="num_train_epochs", value=3), {"num_train_epochs": None}),
    ],
)
def test_what_is_broken_is_named_and_mended(wish: Wish, changes: dict[str, Any]) -> None:
    kept: dict[str, Any] = {"learning_rate": 5e-5}
    assert [b.wish for b in breaches([wish], LORA, kept)] == [wish]
    found = obeyed([wish], LORA, kept)
    assert found == {k: v for k, v in {**LORA, **changes}.items() if v is not None}
    assert breaches([wish], found, kept) == []


def test_what_the_engine_does_not_look_at_breaks_nothing() -> None:
    by_steps: dict[str, Any] = {"finetuning_type": "full", "max_steps": 100, "num_train_epochs": 9.0, "lora_rank": 99}
    bounds = [Bound(parameter="num_train_epochs", at_most=3), Bound(parameter="lora_rank", at_most=8)]
    assert breaches(bounds, by_steps, {}) == []


def test_a_value_that_is_asked_for_brings_what_it_needs() -> None:
    full: dict[str, Any] = {"finetuning_type": "full", "max_steps": 100}
    assert obeyed([Use(parameter="lora_rank", value=4)], full, {})["finetuning_type"] == "lora"
    assert obeyed([Use(parameter="num_train_epochs", value=2)], full, {}) == {
        "finetuning_type": "full",
        "num_train_epochs": 2,
    }


@given(st.floats(1e-9, 1), st.floats(1e-9, 1), st.floats(1e-9, 1))
def test_obeyed_values_obey(value: float, one: float, other: float) -> None:
    wishes = [Bound(parameter="learning_rate", at_least=min(one, other), at_most=max(one, other))]
    found = obeyed(wishes, {**LORA, "learning_rate": value}, {})
    assert breaches(wishes, found, {}) == []
    assert obeyed(wishes, found, {}) == found


def test_sources() -> None:
    only = [Sources(only=("raw/book.jsonl",))]
    assert allowed(only, "raw") and allowed(only, "raw", "book.jsonl")
    assert not allowed(only, "raw", "web.jsonl") and not allowed(only, "extra")
    never = [Sources(never=("raw/web.jsonl", "extra"))]
    assert allowed(never, "raw") and allowed(never, "raw", "book.jsonl")
    assert not allowed(never, "raw", "web.jsonl") and not allowed(never, "extra", "a.json")
    assert not allowed([*only, Sources(never=("raw/book.jsonl",))], "raw", "book.jsonl")
