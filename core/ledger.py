"""What a run has spent, what it may spend, and what is left: time, GPU-hours, tokens, money, disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tuneloop.core.wording import duration

Kind = Literal["time", "GPU-hours", "tokens", "money"]
KINDS: tuple[Kind, ...] = ("time", "GPU-hours", "tokens", "money")
NEAR = 0.8  # share of a limit at which there is a warning


class Amounts(BaseModel):
    """Of what can be limited; money in USD, as far as prices are known.

    Seconds are of work, of all sittings; GPU-hours devices times hours of each job that may use them; tokens in and out.
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
class Line:
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
            amount(self.kind, self.spent) if self.limit is None else f"{self.spoken} of {amount(self.kind, self.limit)}"
        )

    @property
    def spoken(self) -> str:
        """What was spent, without the unit where the limit has the same."""
        said = amount(self.kind, self.spent)
        return said.rpartition(" ")[0] if self.kind != "time" and self.limit is not None else said


def lines(spent: Amounts, limits: Limits) -> Iterator[Line]:
    """All kinds."""
    return (Line(kind, spent.of(kind), limits.of(kind)) for kind in KINDS)


def amount(kind: Kind, value: float) -> str:
    """`2 h 05 min`, `1.50 GPU-h`, `120000 tokens`, `3.20 USD`."""
    match kind:
        case "time":
            return duration(max(0.0, value))
        case "GPU-hours":
            return f"{value:.2f} GPU-h"
        case "tokens":
            return f"{value:.0f} tokens"
        case "money":
            return f"{value:.2f} USD" if value >= 0.1 or not value else f"{value:.4f} USD"
