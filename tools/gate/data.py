"""Checks every record a script made, drops overlaps with the benchmark, writes `data.json` and, last, `report.json`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol, TextIO

from tokenizers import Tokenizer

from tuneloop.core.benchmark import Benchmark
from tuneloop.core.files import digest_file, remove_torn, sync, write_json
from tuneloop.tools.benchmarks.scoring import extract
from tuneloop.tools.gate.report import DATA, REJECTED, REPORT, GateReport
from tuneloop.tools.gate.rows import Row, empty_field, read_row
from tuneloop.tools.gate.stream import StreamError, stream_rows
from tuneloop.tools.gate.verdict import SHOWN, Tally, errors_of, lengths_of, warnings_of

BATCH = 1000


class Guard(Protocol):
    """Knows the benchmark's items."""

    def overlaps(self, text: str) -> str | None:
        """The split (validation or test) that `text` overlaps with, never an item's text; None: no overlap."""
        ...


@dataclass(frozen=True)
class _Gate:
    """What records are judged by."""

    benchmark: Benchmark
    guard: Guard
    tokenizer: Tokenizer
    overhead: int


def gate(
    raw: Path,
    out: Path,
    *,
    row_limit: int,
    benchmark: Benchmark,
    guard: Guard,
    tokenizer: Path,
    cutoff_len: int | None,
    overhead: int = 0,
) -> GateReport:
    """Check the script's `raw` file record by record.

    `tokenizer` is a tokenizer.json, `overhead` the tokens the template adds to a record. When the report has no
    errors, `out` holds `data.json` and `report.json`; otherwise neither, and `rejected.json` says why.
    """
    out.mkdir(parents=True, exist_ok=True)
    for name in (REPORT, DATA, REJECTED):
        (out / name).unlink(missing_ok=True)
    remove_torn(out / DATA)
    judge = _Gate(benchmark, guard, Tokenizer.from_file(str(tokenizer)), overhead)
    tally, part = Tally(), out / f".{DATA}.{os.getpid()}.part"
    try:
        with part.open("w", encoding="utf-8") as target:
            broken = _run(raw, judge, tally, target)
            target.flush()
            os.fsync(target.fileno())
        report = _report(raw, tally, broken, row_limit=row_limit, benchmark=benchmark, cutoff_len=cutoff_len)
        if report.ok:
            part.replace(out / DATA)
            sync(out)
    finally:
        part.unlink(missing_ok=True)
    write_json(out / (REPORT if report.ok else REJECTED), report.model_dump(mode="json"))
    return report


def _run(raw: Path, judge: _Gate, tally: Tally, target: TextIO) -> str:
    """Read, judge and write in batches; returns why the file cannot be read, or ""."""
    target.write("[")
    try:
        rows = _rows(raw, judge, tally)
        while batch := list(islice(rows, BATCH)):
            _take(batch, judge, tally, target)
    except StreamError as e:
        return str(e)
    target.write("\n]\n")
    target.flush()
    os.fsync(target.fileno())
    return ""


def _rows(raw: Path, judge: _Gate, tally: Tally) -> Iterator[Row]:
    """Records that are whole and do not overlap with the benchmark."""
    for number, value in enumerate(stream_rows(raw), 1):
        tally.read = number
        row = read_row(number, value)
        if isinstance(row, str):
            tally.wrong += 1
            tally.sentences += [row] if len(tally.sentences) < SHOWN else []
            continue
        tally.extra_fields.update(set(value) - {"instruction", "input", "output"})
        if empty := empty_field(row):
            tally.dropped[f"empty {empty}"] += 1
            tally.first_empty = tally.first_empty or f'row {number} field "{empty}"'
        elif split := judge.guard.overlaps(row.asked):
            # Only the split's name may leave this place, whatever the guard says.
            tally.dropped[f"overlap with {split if split in ('validation', 'test') else 'the benchmark'}"] += 1
        else:
            yield row


def _take(batch: list[Row], judge: _Gate, tally: Tally, target: TextIO) -> None:
    texts = [text for row in batch for text in (row.asked, row.output)]
    counts = [len(code) for code in judge.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    for i, row in enumerate(batch):
        tally.lengths.append(counts[2 * i] + counts[2 * i + 1] + judge.overhead)
        tally.repeats.add(row)
        if extract(judge.benchmark.answer, row.output) is not None:
            tally.parsed += 1
        elif not tally.first_unparsed:
            tally.first_unparsed = f"row {row.number} ends {row.output[-60:]!r}"
        target.write((",\n" if tally.kept else "\n") + json.dumps(row.as_json(), ensure_ascii=False))
        tally.kept += 1


def _report(
    raw: Path, tally: Tally, broken: str, *, row_limit: int, benchmark: Benchmark, cutoff_len: int | None
) -> GateReport:
    lengths = lengths_of(tally.lengths, cutoff_len)
    return GateReport(
        source=digest_file(raw),
        read=tally.read,
        rows=tally.kept,
        row_limit=row_limit,
        dropped=dict(sorted(tally.dropped.items())),
        exact_duplicates=tally.repeats.exact,
        near_duplicates=tally.repeats.near,
        reasked=tally.repeats.reasked,
        parsed=round(100 * tally.parsed / tally.kept, 2) if tally.kept else 0.0,
        lengths=lengths,
        errors=tuple(f"data.json: {e}" for e in errors_of(tally, broken, row_limit, benchmark)),
        warnings=tuple(f"data.json: {w}" for w in warnings_of(tally, lengths)),
    )
