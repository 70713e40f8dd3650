"""What was spent and what is set aside for requests under way, against an allowance."""

from __future__ import annotations

from dataclasses import dataclass, field

from tuneloop.core.settings import Allowance
from tuneloop.tools.proxy.ledger import Entry
from tuneloop.tools.proxy.refusal import Refused


@dataclass(frozen=True)
class Amount:
    """Requests, tokens, money."""

    requests: int = 0
    tokens: int = 0
    money: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.requests + other.requests, self.tokens + other.tokens, self.money + other.money)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.requests - other.requests, self.tokens - other.tokens, self.money - other.money)

    def most(self, other: Amount) -> Amount:
        """The larger of each."""
        return Amount(max(self.requests, other.requests), max(self.tokens, other.tokens), max(self.money, other.money))


def amount(entry: Entry) -> Amount:
    """What it takes from an allowance."""
    return Amount(1, entry.tokens_in + entry.tokens_out, entry.cost or 0.0) if entry.paid else Amount()


@dataclass
class Account:
    """Of one job, or of the whole run."""

    owner: str
    allowance: Allowance
    spent: Amount = field(default_factory=Amount)
    aside: Amount = field(default_factory=Amount)

    def told(self) -> dict[str, dict[str, float | None]]:
        """What was used of what, as JSON; None: no limit."""
        names = ("requests", "tokens", "money")
        return {name: {"used": getattr(self.spent, name), "limit": getattr(self.allowance, name)} for name in names}

    def check(self, more: Amount) -> None:
        """Raises Refused when `more` does not fit beside what was spent and set aside."""
        after = self.spent + self.aside + more
        for name, used in (("requests", after.requests), ("tokens", after.tokens), ("money", after.money)):
            limit = getattr(self.allowance, name)
            if limit is not None and used > limit:
                raise Refused(
                    403,
                    "limit_reached",
                    f"{self.owner} may use {limit:g} {name} in all, {getattr(self.spent, name):g} are used and this "
                    f"request would want {getattr(more, name):g}; work with what there is",
                )
