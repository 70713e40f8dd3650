"""What tokens of a model cost: the user's prices first, then the dated list prices in `prices.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator

from tuneloop.core.frozen import Frozen

Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]
FILE = Path(__file__).with_name("prices.json")
VENDOR = re.compile(r"^(?:openai|anthropic|google|google_genai|google_vertexai|mistralai|mistral|xai|x-ai)[:/]")
DATED = re.compile(r"-(?:latest|\d{4}-\d\d-\d\d|\d{8})$")


class Price(Frozen):
    """USD for a million tokens in, out, and in from the provider's cache; prompts of more than `beyond` cost `longer`."""

    model_config = ConfigDict(extra="forbid")

    into: Dollars
    out: Dollars
    cached: Dollars
    beyond: int = Field(0, ge=0)
    longer: Price | None = None

    @model_validator(mode="before")
    @classmethod
    def listed(cls, value: Any) -> Any:
        """`[in, out]` or `[in, out, cached]`; without a price of their own cached tokens cost what others do."""
        if not isinstance(value, list | tuple):
            return value
        if len(value) not in (2, 3):
            raise ValueError("right is [in, out] or [in, out, cached], each for a million tokens")
        return {"into": value[0], "out": value[1], "cached": value[-1] if len(value) == 3 else value[0]}

    def cost(self, into: int, out: int, cached: int = 0) -> float:
        """USD; `cached` of the tokens `into` came from the provider's cache."""
        if self.longer is not None and into > self.beyond:
            return self.longer.cost(into, out, cached)
        cached = min(max(0, cached), into)  # counts that a provider reports may be inconsistent
        return ((into - cached) * self.into + cached * self.cached + out * self.out) / 1e6


class PriceList(Frozen):
    """`prices.json`: when and from where it is."""

    date: str
    source: str
    models: dict[str, Price]


@cache
def load_price_list() -> PriceList:
    """The list prices that came with this version."""
    return PriceList.model_validate(json.loads(FILE.read_bytes()))


def find_price(model: str, own: Mapping[str, Price]) -> Price | None:
    """The user's price, else the list price; None: unknown.

    `provider:model` is looked for without the provider, and in the list without the date of a snapshot.
    """
    bare = model.partition(":")[2]
    if (known := own.get(model) or own.get(bare)) is not None:
        return known
    name = VENDOR.sub("", model)
    listed = load_price_list().models
    return listed.get(name) or listed.get(DATED.sub("", name))


def price_source(model: str, own: Mapping[str, Price]) -> str:
    """Source of the price: `own`, `list`, or "" when it is unknown."""
    if own.get(model) or own.get(model.partition(":")[2]):
        return "own"
    return "list" if find_price(model, own) else ""
