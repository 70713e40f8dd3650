"""Constraints on recipes: what violates them, what is nearest, which data may be read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.core.constraints import constrained, epochs_violation, is_allowed, violations
from tuneloop.core.directive import Avoid, Bound, Keep, Lasting, Sources, Use

LORA: dict[str, Any] = {"finetuning_type": "lora", "learning_rate": 2e-4, "lora_rank": 8, "num_train_epochs": 3.0}


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        (Use(parameter="lora_rank", value=32), {"lora_rank": 32}),
        (Bound(parameter="learning_rate", at_most=1e-4), {"learning_rate": 1e-4}),
        (Bound(parameter="lora_rank", at_least=16), {"lora_rank": 16}),
        (Keep(parameter="learning_rate"), {"learning_rate": 5e-5}),
        (Avoid(parameter="finetuning_type", value="lora"), {"finetuning_type": "full"}),
        (Avoid(parameter="num_train_epochs", value=3), {"num_train_epochs": None}),
    ],
)
def test_what_is_broken_is_named_and_mended(command: Lasting, changes: dict[str, Any]) -> None:
    kept: dict[str, Any] = {"learning_rate": 5e-5}
    assert [b.constraint for b in violations([command], LORA, kept)] == [command]
    found = constrained([command], LORA, kept)
    assert found == {k: v for k, v in {**LORA, **changes}.items() if v is not None}
    assert violations([command], found, kept) == []


def test_what_the_engine_does_not_look_at_breaks_nothing() -> None:
    by_steps: dict[str, Any] = {"finetuning_type": "full", "max_steps": 100, "num_train_epochs": 9.0, "lora_rank": 99}
    bounds = [Bound(parameter="num_train_epochs", at_most=3), Bound(parameter="lora_rank", at_most=8)]
    assert violations(bounds, by_steps, {}) == []


def test_a_value_that_is_asked_for_brings_what_it_needs() -> None:
    full: dict[str, Any] = {"finetuning_type": "full", "max_steps": 100}
    assert constrained([Use(parameter="lora_rank", value=4)], full, {})["finetuning_type"] == "lora"
    assert constrained([Use(parameter="num_train_epochs", value=2)], full, {}) == {
        "finetuning_type": "full",
        "num_train_epochs": 2,
    }


@given(st.floats(1e-9, 1), st.floats(1e-9, 1), st.floats(1e-9, 1))
def test_obeyed_values_obey(value: float, one: float, other: float) -> None:
    commands = [Bound(parameter="learning_rate", at_least=min(one, other), at_most=max(one, other))]
    found = constrained(commands, {**LORA, "learning_rate": value}, {})
    assert violations(commands, found, {}) == []
    assert constrained(commands, found, {}) == found


def test_sources() -> None:
    only = [Sources(only=("raw/book.jsonl",))]
    assert is_allowed(only, "raw") and is_allowed(only, "raw", "book.jsonl")
    assert not is_allowed(only, "raw", "web.jsonl") and not is_allowed(only, "extra")
    never = [Sources(never=("raw/web.jsonl", "extra"))]
    assert is_allowed(never, "raw") and is_allowed(never, "raw", "book.jsonl")
    assert not is_allowed(never, "raw", "web.jsonl") and not is_allowed(never, "extra", "a.json")
    assert not is_allowed([*only, Sources(never=("raw/book.jsonl",))], "raw", "book.jsonl")


def test_bound_on_epochs_holds_for_plans_in_steps() -> None:
    bound = Bound(parameter="num_train_epochs", at_least=1, at_most=3)
    assert epochs_violation([bound], epochs=2.5, steps=100) is None
    assert epochs_violation([bound], epochs=6.0, steps=100) == (bound, 50)
    assert epochs_violation([bound], epochs=0.5, steps=100) == (bound, 200)
