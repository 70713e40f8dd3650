"""What a run has spent, what it may spend, and what is left: time, GPU-hours, tokens, money, disk."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import ConfigDict, Field

from tuneloop.core.formatting import format_duration
from tuneloop.core.frozen import Frozen

Kind = Literal["time", "GPU-hours", "tokens", "money"]
KINDS: tuple[Kind, ...] = ("time", "GPU-hours", "tokens", "money")
NEAR = 0.8  # share of a limit at which there is a warning
# Unit that people write → kind of amount, factor to its unit here.
UNITS = {
    **dict.fromkeys(("s", "sec", "second"), ("seconds", 1)),
    **dict.fromkeys(("m", "min", "minute"), ("seconds", 60)),
    **dict.fromkeys(("h", "hr", "hour"), ("seconds", 3600)),
    **dict.fromkeys(("d", "day"), ("seconds", 86400)),
    "experiment": ("experiments", 1),
    "token": ("tokens", 1),
    **dict.fromkeys(("k token", "ktoken"), ("tokens", 1000)),
    **dict.fromkeys(("m token", "mtoken", "million token"), ("tokens", 1_000_000)),
    **dict.fromkeys(("$", "usd", "dollar"), ("money", 1)),
    "gpu-hour": ("gpu_hours", 1),
}


class Amounts(Frozen):
    """Amounts of what can be limited; money in USD, as far as prices are known.

    Seconds: work of all sessions. GPU-hours: devices times hours of each job that may use them. Tokens: input and output.
    """

    seconds: float = 0.0
    gpu_hours: float = 0.0
    tokens: int = 0
    money: float = 0.0

    def of(self, kind: Kind) -> float:
        """The amount of one kind, in its unit."""
        return {"time": self.seconds, "GPU-hours": self.gpu_hours, "tokens": self.tokens, "money": self.money}[kind]


class Spent(Amounts):
    """Amounts of a run. `unpriced`: called models without a known price, which `money` leaves out. Disk in bytes."""

    unpriced: tuple[str, ...] = ()
    disk: int = 0


class Limits(Frozen):
    """Limits of a run; None: unlimited."""

    seconds: float | None = None
    gpu_hours: float | None = None
    tokens: int | None = None
    money: float | None = None

    def of(self, kind: Kind) -> float | None:
        """The amount of one kind, in its unit."""
        return {"time": self.seconds, "GPU-hours": self.gpu_hours, "tokens": self.tokens, "money": self.money}[kind]


@dataclass(frozen=True)
class SpendingLine:
    """What was spent of one kind; `limit` None: unlimited."""

    kind: Kind
    spent: float
    limit: float | None

    @property
    def left(self) -> float | None:
        """What is left, at least 0; None: unlimited."""
        return None if self.limit is None else max(0.0, self.limit - self.spent)

    @property
    def share(self) -> float:
        """Spent share of the limit; 0 without a limit."""
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
        """The amount spent, without its unit where the limit shows it."""
        said = format_amount(self.kind, self.spent)
        return said.rpartition(" ")[0] if self.kind != "time" and self.limit is not None else said


def spending_lines(spent: Amounts, limits: Limits) -> Iterator[SpendingLine]:
    """One line for each kind."""
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


def parse_amount(text: str) -> dict[str, float]:
    """`2h` → `{"seconds": 7200}`; the kinds are those of `Amounts`, and experiments.

    Raises ValueError for text that is no amount: no unit, zero, or a fraction of what is counted.
    """
    match = re.fullmatch(r"([+-]?)\s*(\$?)\s*(\d+(?:\.\d+)?)\s*([A-Za-z][A-Za-z -]*)?", text)
    unit = "" if match is None else match[2] or (match[4] or "").strip().lower().replace("gpu hour", "gpu-hour")
    if match is None or (known := UNITS.get(unit.removesuffix("s") if len(unit) > 1 else unit)) is None:
        raise ValueError(f"no amount in {text!r}")
    kind, factor = known
    amount = float(f"{match[1]}{match[3]}") * factor
    if not amount or not math.isfinite(amount) or (kind in ("experiments", "tokens") and amount != int(amount)):
        raise ValueError(f"{text!r} is no amount of {kind}")
    return {kind: amount}


class LlmQuota(Frozen):
    """How much may be asked of paid models; None: no limit."""

    model_config = ConfigDict(extra="forbid")

    requests: int | None = Field(default=None, gt=0)
    tokens: int | None = Field(default=None, gt=0, description="in and out together")
    money: float | None = Field(default=None, gt=0, description="USD")
