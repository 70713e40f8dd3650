"""Rows as the files that data sets are published in."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pyarrow as pa
import pyarrow.parquet as pq


def parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """One row group; nested values as they come."""
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows)), out)  # type: ignore[attr-defined]
    return out.getvalue()


def jsonl(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    """A CSV file with a header."""
    out = io.StringIO(newline="")
    csv.writer(out).writerows([header, *rows])
    return out.getvalue().encode()


def archive(files: Mapping[str, bytes]) -> bytes:
    """A ZIP file, the same bytes every time."""
    out = io.BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as made:
        for name, data in files.items():
            made.writestr(ZipInfo(name, (2024, 1, 1, 0, 0, 0)), data)
    return out.getvalue()
