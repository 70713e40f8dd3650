"""A quota: what a job or a run has used and reserved of its allowance."""

from __future__ import annotations

from dataclasses import dataclass, field

from tuneloop.core.budget import LlmQuota
from tuneloop.tools.llm_proxy.errors import ApiError
from tuneloop.tools.llm_proxy.ledger import Entry


@dataclass(frozen=True)
class Amount:
    """Requests, tokens, money in USD."""

    requests: int = 0
    tokens: int = 0
    money: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.requests + other.requests, self.tokens + other.tokens, self.money + other.money)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.requests - other.requests, self.tokens - other.tokens, self.money - other.money)

    def maximum(self, other: Amount) -> Amount:
        """The larger of each."""
        return Amount(max(self.requests, other.requests), max(self.tokens, other.tokens), max(self.money, other.money))


def amount_of(entry: Entry) -> Amount:
    """What a ledger entry uses of an allowance."""
    return Amount(1, entry.tokens_in + entry.tokens_out, entry.cost or 0.0) if entry.paid else Amount()


@dataclass
class Quota:
    """The quota of one job, or of the whole run."""

    owner: str
    allowance: LlmQuota
    used: Amount = field(default_factory=Amount)
    reserved: Amount = field(default_factory=Amount)

    def as_json(self) -> dict[str, dict[str, float | None]]:
        """Used amount and limit of each kind; a limit of None: unlimited."""
        names = ("requests", "tokens", "money")
        return {name: {"used": getattr(self.used, name), "limit": getattr(self.allowance, name)} for name in names}

    def check(self, more: Amount) -> None:
        """Raises ApiError when `more` exceeds what is neither used nor reserved."""
        total = self.used + self.reserved + more
        for name in ("requests", "tokens", "money"):
            limit = getattr(self.allowance, name)
            if limit is not None and getattr(total, name) > limit:
                raise ApiError(
                    403,
                    "limit_reached",
                    f"{self.owner} may use {limit:g} {name} in all, {getattr(self.used, name):g} are used and this "
                    f"request needs up to {getattr(more, name):g}; work with the answers you have",
                )
