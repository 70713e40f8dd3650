"""Files in the formats that data sets come in, for the generators in `repos/`."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq


def parquet(rows: Iterable[Mapping[str, Any]], schema: Any = None) -> bytes:
    """A Parquet file; types are inferred where no schema is given."""
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), sink)  # type: ignore[attr-defined]
    return sink.getvalue()


def jsonl(rows: Iterable[Any]) -> bytes:
    """JSON Lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def json_list(rows: Iterable[Any], indent: int | None = 2) -> bytes:
    """One JSON list."""
    return json.dumps(list(rows), ensure_ascii=False, indent=indent).encode()


def table(rows: Iterable[Sequence[Any]], header: Sequence[str] | None = None, delimiter: str = ",") -> bytes:
    """CSV, or another delimiter; without a header line where none is given."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerows([header, *rows] if header else rows)
    return text.getvalue().encode()


def gz(data: bytes) -> bytes:
    """Compressed, the same bytes every time."""
    return gzip.compress(data, mtime=0)


def archive(files: Mapping[str, bytes]) -> bytes:
    """A zip file, the same bytes every time."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in sorted(files.items()):
            z.writestr(zipfile.ZipInfo(name), data)
    return sink.getvalue()
