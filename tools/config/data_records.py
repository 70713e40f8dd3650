"""The first records of a data file, as the engine reads it."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import parse_json
from tuneloop.tools.config.config_text import file_stamp
from tuneloop.tools.raw_data.json_stream import StreamError, stream_rows

WHOLE = 4 << 20  # bytes up to which every record is read
FIRST = 100
TEXTS = (".json", ".jsonl", ".csv", ".txt")


@dataclass(frozen=True)
class DataSample:
    """Records of one file of `size` bytes; `rows` is their number where all were read. `broken`: why none can be."""

    path: Path
    records: tuple[Any, ...] = field(default=(), repr=False)
    rows: int | None = None
    broken: str = ""
    size: int = 0

    @property
    def columns(self) -> frozenset[str]:
        """Names that any record has."""
        return frozenset(name for record in self.records if isinstance(record, dict) for name in record)


def read_sample(path: Path) -> DataSample:
    """The first records, or all of a small file; kept in memory until the file changes.

    A short text is read here; what is larger, or needs a library to be read, by the sandboxed reader.
    """
    size = file_stamp(path)
    return _read(path, size) if size[0] <= WHOLE and path.suffix in TEXTS else _read_confined(path, size)


def read_confined_sample(path: Path) -> DataSample:
    """The same, always by the sandboxed reader: for a file of which nobody knows anything yet."""
    return _read_confined(path, file_stamp(path))


@lru_cache(maxsize=256)
def _read_confined(path: Path, size: tuple[int, int]) -> DataSample:
    from tuneloop.tools.raw_data.client import shared_reader  # which reads with this module, on the other side

    try:
        found = shared_reader().config_sample(path)
    except InvalidRequestError as e:
        return DataSample(path, broken=f"{path.name} cannot be read: {e}")
    return DataSample(path, tuple(found["records"]), found["rows"], str(found["broken"]), size[0])


def read_first(path: Path) -> DataSample:
    """The same, read in this process."""
    return _read(path, file_stamp(path))


@lru_cache(maxsize=256)
def _read(path: Path, size: tuple[int, int]) -> DataSample:
    most = None if size[0] <= WHOLE else FIRST
    try:
        records = tuple(itertools.islice(_records(path), most))
    except (StreamError, ValueError, OSError, csv.Error) as e:
        return DataSample(path, broken=f"{path.name} cannot be read: {e}")
    if not records:
        return DataSample(path, broken=f"{path.name} is empty")
    return DataSample(path, records[:FIRST], len(records) if most is None else None, size=size[0])


def _records(path: Path) -> Iterator[Any]:
    match path.suffix:
        case ".json" | ".jsonl":
            return _json(path)
        case ".csv":
            return _csv(path)
        case ".txt":
            return ({"text": line.rstrip("\n")} for line in path.open(encoding="utf-8"))
    return _columnar(path)


def _json(path: Path) -> Iterator[Any]:
    """A list, or a record a line; the engine tells them apart by the first character, not by the name."""
    with path.open(encoding="utf-8") as f:
        begin = next((c for line in f for c in line.strip()[:1]), "")
    if begin == "[":
        yield from stream_rows(path)
        return
    with path.open(encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if line.strip():
                try:
                    yield parse_json(line)
                except ValueError as e:
                    raise ValueError(f"line {number} is no JSON ({e})") from e


def _csv(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8", newline="") as f:
        yield from csv.DictReader(f)


def _columnar(path: Path) -> Iterator[Any]:
    """Parquet, or Arrow's stream."""
    from pyarrow.ipc import open_stream
    from pyarrow.lib import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        if path.suffix == ".parquet":
            batches = ParquetFile(path).iter_batches(batch_size=FIRST)  # type: ignore[no-untyped-call]
        else:
            batches = open_stream(io.BytesIO(path.read_bytes()))  # type: ignore[no-untyped-call]
        for batch in batches:
            yield from batch.to_pylist()
    except ArrowException as e:
        raise ValueError(str(e)) from e
