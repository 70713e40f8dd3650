"""The researcher's first choice, when the user names no data: which registered data sets teach what the benchmark asks."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tuneloop.core.catalog import Benchmark, Dataset
from tuneloop.core.frozen import Frozen

WORD = re.compile(r"[a-z][a-z-]{3,}")
STOP = {
    "about", "answer", "each", "file", "from", "have", "question", "rows", "that", "their", "there", "this", "which", "with",
}  # fmt: skip
SAME_DOMAIN, MADE_FOR, OWN = 1.0, 2.0, 4.0
SHARE, MOST = 0.6, 3


class RatedDataset(Frozen):
    """How well a data set fits, and why."""

    name: str
    weight: float
    why: str


class DatasetSelection(Frozen):
    """The data sets of a run."""

    datasets: tuple[str, ...]
    reason: str
    rated: tuple[RatedDataset, ...] = ()


def select_datasets(benchmark: Benchmark, cards: Iterable[Dataset]) -> DatasetSelection:
    """The benchmark's own rows alone, else the best card and those nearly as good, at most three.

    None where not even the domain is the same.
    """
    rated = sorted((rate_dataset(benchmark, card) for card in cards), key=lambda r: (-r.weight, r.name))
    fitting = [r for r in rated if r.weight >= SAME_DOMAIN]
    own = [r for r in fitting if r.weight >= OWN]
    chosen = own[:1] or [r for r in fitting if r.weight >= SHARE * fitting[0].weight][:MOST]
    reason = "; ".join(f"{r.name}: {r.why}" for r in chosen)
    return DatasetSelection(datasets=tuple(r.name for r in chosen), reason=reason, rated=tuple(rated[:10]))


def rate_dataset(benchmark: Benchmark, card: Dataset) -> RatedDataset:
    """Made for it by name, then the same domain, then words in common."""
    weight, why = 0.0, []
    if card.name.removesuffix("-train") == benchmark.name:
        weight, why = OWN, ["it is the benchmark's own"]
    elif any(benchmark.name.lower().startswith(name.lower()) for name in card.teaches):
        weight, why = MADE_FOR, [f"it is made for {benchmark.name}"]
    if card.domain == benchmark.domain:
        weight += SAME_DOMAIN
        why.append(f"its domain is {card.domain}")
    told = content_words(card.name, card.description, *card.parts)
    if common := content_words(benchmark.name, benchmark.description) & told:
        weight += len(common) / (len(common) + 10)
        why.append(f"it also tells of {', '.join(sorted(common)[:5])}")
    return RatedDataset(name=card.name, weight=round(weight, 3), why=", ".join(why) or "nothing in common")


def content_words(*texts: str) -> set[str]:
    """Words that tell something."""
    return {word for text in texts for word in WORD.findall(text.lower())} - STOP
