"""A public test set becomes validation and sealed test: by content, so that added items move no others.

What shares a context or is nearly the same text stays on one side. The side is decided by a hash of the contents, or of the
context's name where there is one; where there are more items than wanted, those with the lowest hashes are taken, of every
group its share. The validation items of any benchmark are divided likewise: into those that agents see and those that lie
beside the sealed test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tuneloop.core.catalog import Benchmark, Item
from tuneloop.core.files import digest, read_lines, write_lines
from tuneloop.tools.benchmark_items.folder import (
    HALVED_FROM,
    UNSEEN,
    VALIDATION,
    item_content_hash,
    order_clusters,
    read_items,
)

Unit = list[Item]


def split(benchmark: Benchmark, pool: Iterable[Item]) -> tuple[list[Item], list[Item]]:
    """Validation and test items, each in the pool's order; what the pool has twice is taken once."""
    items = list({item_content_hash(item): item for item in pool}.values())
    units = sorted(units_of(items), key=unit_rank)
    sides: tuple[list[Unit], list[Unit]] = ([], [])
    for members in by_group(units).values():
        for side, chosen in zip(sides, split_halves(members), strict=True):
            side.extend(chosen)
    wanted = (benchmark.validation_size, benchmark.test_size)
    chosen_ids = [{i.id for i in thin_units(side, size)} for side, size in zip(sides, wanted, strict=True)]
    validation, test = ([item for item in items if item.id in ids] for ids in chosen_ids)
    return validation, test


def seal_half(root: Path) -> None:
    """Take the half that agents do not see out of a folder's `validation.jsonl`, which holds all of validation.

    The file of the other half is empty where there are fewer than `HALVED_FROM` clusters.
    """
    rows = list(read_lines(root / VALIDATION))
    sealed = {item.id for item in unseen_half(read_items(root / VALIDATION))}
    write_lines(root / VALIDATION, (row for row in rows if row["id"] not in sealed))
    write_lines(root / UNSEEN, (row for row in rows if row["id"] in sealed))


def unseen_half(items: Sequence[Item]) -> list[Item]:
    """The validation items that agents do not see: about a half, whole units, by their contents alone."""
    units = sorted(units_of(items), key=half_hash)
    if len(order_clusters(items)) < HALVED_FROM or len(units) < 2:
        return []
    return [item for unit in split_halves(units, half_hash)[1] for item in unit]


def half_hash(unit: Unit) -> str:
    """Which half a unit belongs to: says nothing of its rank, by which sides and samples are chosen."""
    return digest("unseen", unit_rank(unit))


def units_of(items: Sequence[Item]) -> list[Unit]:
    """Items that belong together."""
    from tuneloop.tools.contamination.near_copies import groups_of_near_copies  # brings NumPy: names are known without

    parent = list(range(len(items)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    copies = groups_of_near_copies(distinct_texts(items))
    for marks in ([item.cluster for item in items], map(str, copies)):
        first: dict[str, int] = {}
        for i, mark in enumerate(marks):
            if mark:
                parent[root(i)] = root(first.setdefault(mark, i))
    units: dict[int, Unit] = defaultdict(list)
    for i, item in enumerate(items):
        units[root(i)].append(item)
    return list(units.values())


def distinct_texts(items: Sequence[Item]) -> list[str]:
    """What an item says of itself: without fields that most items share with others (a subject, solved examples)."""
    values = {name: {item.fields.get(name) for item in items} for item in items[:1] for name in item.fields}
    own = [name for name, found in values.items() if 2 * len(found) > len(items)] or list(values)
    return ["\n".join(item.fields.get(name, "") for name in own) for item in items]


def unit_rank(unit: Unit) -> str:
    """Where a unit stands among all, however many items it has: by the lowest hash of its clusters, else of its items.

    Clusters go first, so that one that grows stays where it is, and one table or application is on the same side of every
    benchmark that asks of it.
    """
    return digest(
        min((digest(item.cluster) for item in unit if item.cluster), default="") or min(map(item_content_hash, unit))
    )


def by_group(units: Iterable[Unit]) -> dict[str, list[Unit]]:
    """Units by the group of their first item, in the units' order."""
    found: dict[str, list[Unit]] = defaultdict(list)
    for unit in units:
        found[min(unit, key=item_content_hash).group].append(unit)
    return found


def split_halves(units: Sequence[Unit], key: Callable[[Unit], str] = unit_rank) -> tuple[list[Unit], list[Unit]]:
    """Units with a low hash, and the others, of units sorted by `key`; neither stays empty where there are two units."""
    low = [unit for unit in units if int(key(unit)[:8], 16) < 1 << 31]
    cut = min(max(len(low), 1), len(units) - 1) if len(units) > 1 else len(low)
    return list(units[:cut]), list(units[cut:])


def thin_units(units: Sequence[Unit], size: int) -> list[Item]:
    """At most about `size` items: of each group the units with the lowest hashes, as many as its share is."""
    total = sum(map(len, units))
    if total <= size:
        return [item for unit in units for item in unit]
    chosen: list[Item] = []
    for members in by_group(units).values():
        share = max(1, round(size * sum(map(len, members)) / total))
        taken: list[Item] = []
        for unit in members:
            if len(taken) >= share:
                break
            taken.extend(unit)
        chosen.extend(taken)
    return chosen
