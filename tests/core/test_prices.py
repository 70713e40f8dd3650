"""What tokens cost: the user's prices win, the list is dated and sourced, and what nobody knows is not free."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tuneloop.core.prices import Price, find_price, load_price_list

OWN = {"mine": Price.model_validate([1, 2]), "gpt-5": Price.model_validate([3, 4, 0.5])}


def test_cached_tokens_have_own_or_normal_price() -> None:
    assert OWN["mine"].cost(1_000_000, 500_000, cached=900_000) == 2.0
    assert OWN["gpt-5"].cost(1_000_000, 0, cached=2_000_000) == 0.5, "never more than all"
    assert OWN["gpt-5"].cost(1_000_000, 0, cached=-5) == 3
    assert OWN["gpt-5"].cost(1_000_000, 0, cached=400_000) == pytest.approx(0.6 * 3 + 0.4 * 0.5)


def test_a_long_prompt_is_dearer_as_a_whole() -> None:
    price = Price(into=1, out=2, cached=0.1, beyond=100, longer=Price.model_validate([10, 20]))
    assert price.cost(100, 0) == pytest.approx(100e-6)
    assert price.cost(101, 1) == pytest.approx(1030e-6)


@pytest.mark.parametrize("name", ["gpt-5-mini", "openai:gpt-5-mini", "openai/gpt-5-mini", "gpt-5-mini-2025-08-07"])
def test_the_list_is_asked_by_the_name_that_the_provider_uses(name: str) -> None:
    assert find_price(name, {}) == load_price_list().models["gpt-5-mini"]


def test_price_precedence_and_unknown_models() -> None:
    assert find_price("gpt-5", OWN) == find_price("openai:gpt-5", OWN) == OWN["gpt-5"]
    for unknown in ("gpt-5-turbo-special", "qwen3-8b", "somebody/gpt-5", ""):
        assert find_price(unknown, OWN) is None


def test_price_list_has_date_source_and_cache_prices() -> None:
    found = load_price_list()
    assert found.date.startswith("20") and "http" in found.source
    for name, price in found.models.items():
        assert 0 <= price.cached <= price.into <= price.out, name
        assert price.longer is None or (price.beyond > 0 and price.longer.into > price.into), name


@pytest.mark.parametrize(
    "wrong", [[1], [1, 2, 3, 4], [-1, 2], ["a", 2], [1, float("inf")], [1, float("nan")], {"in": 1}]
)
def test_prices_that_are_none(wrong: object) -> None:
    with pytest.raises(ValidationError):
        Price.model_validate(wrong)
