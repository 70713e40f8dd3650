"""A benchmark on disk: `validation.jsonl`, `sealed/test.jsonl` and, last, `manifest.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tuneloop.core.benchmark import Benchmark, Item
from tuneloop.core.errors import SetupError
from tuneloop.core.files import digest, digest_file, read_json, read_lines
from tuneloop.tools.benchmarks import scoring
from tuneloop.tools.store import MANIFEST

VALIDATION, TEST = "validation.jsonl", "sealed/test.jsonl"
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
        return _hashes(self.root)[TEST]


def items(folder: BenchmarkFolder, split: Literal["validation"], limit: int | None = None) -> list[Item]:
    """Validation items in file order; with `limit` a subset that depends on the items' contents alone.

    Raises SetupError when the file is not the one that was made.
    """
    if split != "validation":
        raise ValueError(f"{split} items are not handed out here")
    found = _read(folder, VALIDATION)
    if limit is None or limit >= len(found):
        return found
    chosen = {item.id for item in sorted(found, key=content)[:limit]}
    return [item for item in found if item.id in chosen]


def sealed_items(folder: BenchmarkFolder) -> list[Item]:
    """Test items. Callers are `finish` and the contamination guard; nothing else may read them."""
    return _read(folder, TEST)


def sealed_count(folder: BenchmarkFolder) -> int:
    """How many test items there are; nothing of them leaves."""
    return (folder.root / TEST).read_bytes().count(b"\n")


def prompt(benchmark: Benchmark, item: Item) -> str:
    """The user turn of one item."""
    return scoring.render(benchmark.prompt, item.fields)


def open_folder(benchmark: Benchmark, root: Path) -> BenchmarkFolder:
    """The whole folder at `root` under the declaration `benchmark`."""
    hashes = _hashes(root)
    declared = benchmark.model_dump_json()
    return BenchmarkFolder(benchmark, root, digest(declared, hashes[VALIDATION], hashes[TEST]))


def read_items(path: Path) -> list[Item]:
    """Items of one of our own files: `id`, `answer`, and fields. Raises ValueError, KeyError on a foreign one."""
    return [_item(row) for row in read_lines(path)]


def _item(row: dict[str, Any]) -> Item:
    # a text is a field that is called so
    calls, of = (row[name] if isinstance(row.get(name), dict) else None for name in ("calls", OF))
    fields = {name: value for name, value in row.items() if name not in RESERVED and not isinstance(value, dict)}
    values = {"id": row["id"], "answer": row["answer"], "fields": fields, "calls": calls}
    return Item.model_validate({**values, **(of or {})})


def line(item: Item) -> dict[str, Any]:
    """An item as `read_items` reads it."""
    calls = {"calls": item.calls.model_dump()} if item.calls else {}
    of = {name: value for name in ("group", "cluster") if (value := getattr(item, name))}
    return {"id": item.id, **item.fields, **calls, **({OF: of} if of else {}), "answer": item.answer}


def _read(folder: BenchmarkFolder, name: str) -> list[Item]:
    path = folder.root / name
    if not path.is_file() or digest_file(path) != _hashes(folder.root)[name]:
        raise SetupError(f"{path}: missing or changed since it was made; remove {folder.root} to make it again")
    return read_items(path)


def _hashes(root: Path) -> dict[str, str]:
    hashes: dict[str, str] = read_json(root / MANIFEST)["files"]
    return hashes


def content(item: Item) -> str:
    """Hash of what an item asks and wants, whatever it is called."""
    calls = [item.calls.model_dump_json()] if item.calls else []
    return digest(item.answer, *calls, *(f"{name}={value}" for name, value in sorted(item.fields.items())))
