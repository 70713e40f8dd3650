"""The items of a benchmark on disk, and how many of them a run measures: as many as are cheap, by what the first ones took."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tuneloop.core.catalog import Benchmark, Item
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import damaged, digest, digest_file, read_field, read_lines
from tuneloop.tools.hub.store import MANIFEST
from tuneloop.tools.scoring import answer_matching

# A benchmark on disk: `validation.jsonl`, `sealed/validation.jsonl`, `sealed/test.jsonl` and, last, `manifest.json`.

VALIDATION, UNSEEN, TEST = "validation.jsonl", "sealed/validation.jsonl", "sealed/test.jsonl"
HALVED_FROM = 100  # clusters of items; with fewer all are shown: half of them could not tell anything
RESERVED = ("id", "answer")
OF = "of"  # the group and the cluster of an item


@dataclass(frozen=True)
class BenchmarkFolder:
    """A benchmark whose items are there; `fingerprint` is a hash of declaration and items."""

    benchmark: Benchmark = field(hash=False)
    root: Path
    fingerprint: str

    @property
    def validation(self) -> Path:
        """Items whose scores and failures agents see."""
        return self.root / VALIDATION

    @property
    def sealed(self) -> Path:
        """The folder that only `finish`'s job and the contamination guard read."""
        return self.root / "sealed"

    @property
    def test_split(self) -> str:
        """Hash of the sealed items alone: another wording, or another scorer, makes no new test of them."""
        return file_hashes(self.root)[TEST]


@dataclass(frozen=True)
class Validation:
    """The validation items that are measured, in their order; `unseen`: those that agents do not see."""

    shown: tuple[Item, ...]
    unseen: tuple[Item, ...] = ()

    @property
    def halves(self) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
        """Shown and unseen."""
        return self.shown, self.unseen

    @property
    def every(self) -> tuple[Item, ...]:
        """All that are measured."""
        return (*self.shown, *self.unseen)


def select_validation(folder: BenchmarkFolder, limit: int | None = None) -> Validation:
    """At most `limit` validation items, whole clusters, in an order that follows from their contents alone.

    A smaller limit gives the beginning of what a larger one gives. Where fewer than `HALVED_FROM` clusters are measured,
    all are shown. Raises InvalidRequestError when a file is not the one that was made.
    """
    open_ids, units = _ordered(_verified(folder, VALIDATION), _verified(folder, UNSEEN))
    chosen = take_units(units, limit)
    items = [item for unit in chosen for item in unit]
    if len(chosen) < HALVED_FROM:
        return Validation(tuple(items))
    return Validation(
        tuple(item for item in items if item.id in open_ids), tuple(item for item in items if item.id not in open_ids)
    )


@lru_cache(maxsize=4)
def _ordered(shown: tuple[Path, str], unseen: tuple[Path, str]) -> tuple[frozenset[str], list[list[Item]]]:
    """Ids of the items that are shown, and the clusters of all: asked for dozens of times in a run, of the same files."""
    seen = read_items(shown[0])
    return frozenset(item.id for item in seen), order_clusters([*seen, *read_items(unseen[0])])


def order_clusters(items: Iterable[Item]) -> list[list[Item]]:
    """Clusters of items, an item without one by itself, by a hash of the cluster's name or of the item's content."""
    units: dict[str, list[Item]] = defaultdict(list)
    for key, item in sorted(((item_content_hash(item), item) for item in items), key=lambda pair: pair[0]):
        units[digest(item.cluster) if item.cluster else key].append(item)
    return [units[key] for key in sorted(units)]


def take_units(units: Sequence[list[Item]], limit: int | None) -> list[list[Item]]:
    """The first units with at most `limit` items together; one at least."""
    if limit is None:
        return list(units)
    ends = itertools.accumulate(map(len, units))
    return list(units[: max(1, sum(end <= limit for end in ends))])


def sealed_items(folder: BenchmarkFolder) -> list[Item]:
    """Test items. Callers are `finish` and the contamination guard; nothing else may read them."""
    return read_items(_verified(folder, TEST)[0])


def sealed_count(folder: BenchmarkFolder) -> int:
    """How many test items there are; nothing of them leaves."""
    return (folder.root / TEST).read_bytes().count(b"\n")


def render_prompt(benchmark: Benchmark, item: Item) -> str:
    """The user turn of one item."""
    return answer_matching.render(benchmark.prompt, item.fields)


def open_folder(benchmark: Benchmark, root: Path) -> BenchmarkFolder:
    """The whole folder at `root` under the declaration `benchmark`. Raises InvalidRequestError for one of an older version."""
    return BenchmarkFolder(benchmark, root, items_fingerprint(benchmark, file_hashes(root)))


def items_fingerprint(benchmark: Benchmark, hashes: Mapping[str, str]) -> str:
    """Hash of a declaration and of the items that files with these hashes hold."""
    return digest(benchmark.model_dump_json(), *(hashes[name] for name in (VALIDATION, UNSEEN, TEST)))


def file_hashes(root: Path) -> dict[str, str]:
    """Hashes of a whole folder's files, by path. Raises FileNotFoundError, and InvalidRequestError for one of an older version."""
    hashes: dict[str, str] = read_field(root / MANIFEST, "files", dict[str, str])
    if UNSEEN not in hashes:
        raise InvalidRequestError(
            f"{root}: an older version made it, without {UNSEEN}; remove it, and it is made again"
        )
    if missing := {VALIDATION, TEST} - hashes.keys():
        raise damaged(root / MANIFEST, f"{min(missing)} is missing")
    return hashes


def read_items(path: Path) -> list[Item]:
    """Items of one of our own files: `id`, `answer`, and fields. Raises DamagedFileError on a foreign one."""
    return [_item(row, path, number) for number, row in enumerate(read_lines(path), 1)]


def _item(row: dict[str, Any], path: Path, number: int) -> Item:
    if not isinstance(row, dict) or not {"id", "answer"} <= row.keys():
        raise damaged(path, "no item with id and answer", number)
    # a text is a field that is called so
    calls, of = (row[name] if isinstance(row.get(name), dict) else None for name in ("calls", OF))
    fields = {name: value for name, value in row.items() if name not in RESERVED and not isinstance(value, dict)}
    values = {"id": row["id"], "answer": row["answer"], "fields": fields, "calls": calls}
    try:
        return Item.model_validate({**values, **(of or {})})
    except ValidationError as e:
        raise damaged(path, e.errors()[0]["msg"], number) from e


def item_line(item: Item) -> dict[str, Any]:
    """An item as `read_items` reads it."""
    calls = {"calls": item.calls.model_dump()} if item.calls else {}
    of = {name: value for name in ("group", "cluster") if (value := getattr(item, name))}
    return {"id": item.id, **item.fields, **calls, **({OF: of} if of else {}), "answer": item.answer}


def _verified(folder: BenchmarkFolder, name: str) -> tuple[Path, str]:
    """The file, which is the one that was made, and its hash."""
    path = folder.root / name
    if not path.is_file() or (found := digest_file(path)) != file_hashes(folder.root)[name]:
        raise InvalidRequestError(
            f"{path}: missing or changed since it was made; remove {folder.root} to make it again"
        )
    return path, found


def item_content_hash(item: Item) -> str:
    """Hash of what an item asks and wants, whatever it is called."""
    calls = [item.calls.model_dump_json()] if item.calls else []
    return digest(item.answer, *calls, *(f"{name}={value}" for name, value in sorted(item.fields.items())))


SIZES = (100, 200, 500, 1000, 2000)
SMALLEST = SIZES[0]
USUAL_EXPERIMENT = 600.0  # seconds, where nothing says how long one may take


@dataclass(frozen=True)
class ValidationSize:
    """`limit`: items of each benchmark at most, None: all there are. `why`: the reason, for people."""

    limit: int | None
    why: str


def seconds_of_experiment(timeout: float | None, loop_n: int | None) -> float:
    """What one experiment may take: the run's time, shared alike, where time and number are given."""
    return timeout / loop_n if timeout and loop_n else USUAL_EXPERIMENT


def choose_size(there: Sequence[int], seconds_each: Mapping[int, float], affordable: float) -> ValidationSize:
    """The most of `SIZES`, or all there are, whose measuring fits into `affordable` seconds; `SMALLEST` at least.

    `there`: validation items of each benchmark; `seconds_each`: seconds for one item, by the benchmark's place.
    """
    most = max(there)
    for limit in sorted({*(size for size in SIZES if size < most), most}, reverse=True):
        if limit > SIZES[-1]:
            continue
        seconds = sum(min(limit, count) * seconds_each[place] for place, count in enumerate(there))
        if seconds <= affordable or limit == min(SMALLEST, most):
            return ValidationSize(
                limit, f"measuring takes about {seconds:.0f} s, and {affordable:.0f} s may be spent on it"
            )
    raise ValueError("there are no validation items")
