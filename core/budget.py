"""What tokens of a model cost: the user's prices, else the dated list prices of `prices.json`; unknown is never free."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tuneloop.core.formatting import format_duration

# What a run has spent, what it may spend, and what is left: time, GPU-hours, tokens, money, disk.

Kind = Literal["time", "GPU-hours", "tokens", "money"]
KINDS: tuple[Kind, ...] = ("time", "GPU-hours", "tokens", "money")
NEAR = 0.8  # share of a limit at which there is a warning


class Amounts(BaseModel):
    """Of what can be limited; money in USD, as far as prices are known.

    Seconds are of work, of all sessions; GPU-hours devices times hours of each job that may use them; tokens in and out.
    """

    model_config = ConfigDict(frozen=True)

    seconds: float = 0.0
    gpu_hours: float = 0.0
    tokens: int = 0
    money: float = 0.0

    def of(self, kind: Kind) -> float:
        """One of them, in its unit."""
        return {"time": self.seconds, "GPU-hours": self.gpu_hours, "tokens": self.tokens, "money": self.money}[kind]


class Spent(Amounts):
    """`unpriced`: models that were asked and whose price nobody knows: the money is without them. Disk in bytes."""

    unpriced: tuple[str, ...] = ()
    disk: int = 0


class Limits(BaseModel):
    """None: unlimited."""

    model_config = ConfigDict(frozen=True)

    seconds: float | None = None
    gpu_hours: float | None = None
    tokens: int | None = None
    money: float | None = None

    def of(self, kind: Kind) -> float | None:
        """One of them, in its unit."""
        return {"time": self.seconds, "GPU-hours": self.gpu_hours, "tokens": self.tokens, "money": self.money}[kind]


@dataclass(frozen=True)
class SpendingLine:
    """One kind: what was spent of what; `limit` None: unlimited."""

    kind: Kind
    spent: float
    limit: float | None

    @property
    def left(self) -> float | None:
        """Never below nothing; None: unlimited."""
        return None if self.limit is None else max(0.0, self.limit - self.spent)

    @property
    def share(self) -> float:
        """Of the limit that is spent; 0 without one."""
        return 0.0 if self.limit is None else self.spent / self.limit if self.limit else 1.0

    def __str__(self) -> str:
        """`1.20 of 5.00 USD`."""
        return (
            format_amount(self.kind, self.spent)
            if self.limit is None
            else f"{self.spent_text} of {format_amount(self.kind, self.limit)}"
        )

    @property
    def spent_text(self) -> str:
        """What was spent, without the unit where the limit has the same."""
        said = format_amount(self.kind, self.spent)
        return said.rpartition(" ")[0] if self.kind != "time" and self.limit is not None else said


def spending_lines(spent: Amounts, limits: Limits) -> Iterator[SpendingLine]:
    """All kinds."""
    return (SpendingLine(kind, spent.of(kind), limits.of(kind)) for kind in KINDS)


def format_amount(kind: Kind, value: float) -> str:
    """`2 h 05 min`, `1.50 GPU-h`, `120000 tokens`, `3.20 USD`."""
    match kind:
        case "time":
            return format_duration(max(0.0, value))
        case "GPU-hours":
            return f"{value:.2f} GPU-h"
        case "tokens":
            return f"{value:.0f} tokens"
        case "money":
            return f"{value:.2f} USD" if value >= 0.1 or not value else f"{value:.4f} USD"


Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]
FILE = Path(__file__).with_name("prices.json")
VENDOR = re.compile(r"^(?:openai|anthropic|google|google_genai|google_vertexai|mistralai|mistral|xai|x-ai)[:/]")
DATED = re.compile(r"-(?:latest|\d{4}-\d\d-\d\d|\d{8})$")


class Price(BaseModel):
    """USD for a million tokens in, out, and in from the provider's cache; prompts of more than `beyond` cost `longer`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
        cached = min(max(0, cached), into)  # what a provider says of itself need not fit together
        return ((into - cached) * self.into + cached * self.cached + out * self.out) / 1e6


class PriceList(BaseModel):
    """`prices.json`: when and from where it is."""

    model_config = ConfigDict(frozen=True)

    date: str
    source: str
    models: dict[str, Price]


@cache
def load_price_list() -> PriceList:
    """The list prices that came with this version."""
    return PriceList.model_validate(json.loads(FILE.read_bytes()))


def find_price(model: str, own: Mapping[str, Price]) -> Price | None:
    """The user's price, else the list's; None: nobody knows.

    `provider:model` is looked for without the provider, and in the list without the date of a snapshot.
    """
    bare = model.partition(":")[2]
    if (known := own.get(model) or own.get(bare)) is not None:
        return known
    name = VENDOR.sub("", model)
    listed = load_price_list().models
    return listed.get(name) or listed.get(DATED.sub("", name))


def price_source(model: str, own: Mapping[str, Price]) -> str:
    """Who knows the price: `own`, `list`, or "" nobody."""
    if own.get(model) or own.get(model.partition(":")[2]):
        return "own"
    return "list" if find_price(model, own) else ""
