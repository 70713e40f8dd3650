"""Units of a test: items that share a context stand or fall together, so what is counted is the cluster, not the item."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tuneloop.core.score import Score


@dataclass(frozen=True)
class Units:
    """Sums of item values, and numbers of items, by cluster. The mean is that of the items: large clusters weigh more."""

    sums: tuple[float, ...]
    sizes: tuple[int, ...]

    @property
    def count(self) -> int:
        """Clusters."""
        return len(self.sums)

    @cached_property
    def items(self) -> int:
        """Items."""
        return sum(self.sizes)

    @cached_property
    def mean(self) -> float:
        """Of all items."""
        return math.fsum(self.sums) / self.items

    @cached_property
    def plain(self) -> bool:
        """Whether every unit is one item that is right or wrong: then counts say everything."""
        return self.items == self.count and all(value in (0, 1) for value in self.sums)

    @cached_property
    def residuals(self) -> tuple[float, ...]:
        """How far each cluster's sum is from what the mean would give it."""
        return tuple(total - self.mean * size for total, size in zip(self.sums, self.sizes, strict=True))

    @cached_property
    def variance(self) -> float:
        """Of a unit: that of the mean is this divided by `count`. 0 for a single unit, of which nothing is known."""
        if self.count < 2:
            return 0.0
        scale = self.count / self.items
        return scale * scale * math.fsum(r * r for r in self.residuals) / (self.count - 1)

    def each(self, change: Callable[[float], float]) -> Units:
        """The same units with changed sums."""
        return Units(tuple(map(change, self.sums)), self.sizes)


def grouped(values: Sequence[float], clusters: Sequence[str]) -> Units:
    """Units of items, in order; the cluster "" is the item's own. Raises ValueError without items."""
    if not values:
        raise ValueError("there are no items")
    found: dict[str | int, list[float]] = defaultdict(list)
    for i, (value, cluster) in enumerate(zip(values, clusters, strict=True)):
        found[cluster or i].append(value)
    return Units(tuple(map(math.fsum, found.values())), tuple(map(len, found.values())))


def units_of(score: Score) -> Units:
    """Values of all items that were measured, by cluster; those that agents do not see count too."""
    return grouped([item.value for item in score.every], [item.cluster for item in score.every])
