"""Amounts as people write them."""

from __future__ import annotations

import pytest

from tuneloop.core.budget import parse_amount


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("2h", {"seconds": 7200}),
        ("90 minutes", {"seconds": 5400}),
        ("-3 experiments", {"experiments": -3}),
        ("2M tokens", {"tokens": 2_000_000}),
        ("-$0.50", {"money": -0.5}),
        ("2 gpu hours", {"gpu_hours": 2}),
    ],
)
def test_amounts_have_the_unit_of_the_budget(text: str, amount: dict[str, float]) -> None:
    assert parse_amount(text) == amount


@pytest.mark.parametrize("text", ["", "cake", "2", "0h", "1.5 experiments", "1e400 h", "two hours"])
def test_other_text_is_no_amount(text: str) -> None:
    with pytest.raises(ValueError, match="no amount"):
        parse_amount(text)
