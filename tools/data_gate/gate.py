"""Checks every record a script made, keeps overlaps with the benchmarks out, writes `data.json` and, last, `report.json`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import orjson

from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import digest_file, fsync_path, remove_partial_writes, write_json
from tuneloop.tools.contamination.probes import Hit
from tuneloop.tools.data_gate.chat_template import ChatTemplate
from tuneloop.tools.data_gate.duplicates import DuplicateIndex
from tuneloop.tools.data_gate.findings import (
    GateCounts,
    gate_errors,
    gate_warnings,
    is_bare_answer,
)
from tuneloop.tools.data_gate.lengths import TokenCounter
from tuneloop.tools.data_gate.media import require_media
from tuneloop.tools.data_gate.records import RecordError, Schema, TrainingRow, find_empty_part, is_unwritable, schema_of
from tuneloop.tools.data_gate.report import DATA, REJECTED, REPORT, GateReport, Lengths, Overlap
from tuneloop.tools.raw_data.client import RawDataReader
from tuneloop.tools.raw_data.json_blocks import Block
from tuneloop.tools.raw_data.json_stream import StreamError
from tuneloop.tools.raw_data.languages import script_shares, writing_script
from tuneloop.tools.scoring.scorer import answer_reader

TEXT, MARK = 200, 16  # characters of a row that overlaps, and of the hash of its question


class OverlapGuard(Protocol):
    """Knows the items of the run's benchmarks."""

    def find(self, rows: Iterable[Any]) -> Iterator[Hit | None]:
        """For each row what it overlaps with, of sealed items nothing but that there is one; None: no overlap."""
        ...


@dataclass
class _Pass:
    """One pass over a file: what records are judged by, and what was found."""

    benchmark: Benchmark | None
    readable: Callable[[str], bool]
    guard: OverlapGuard | None
    schema: Schema
    tokens: TokenCounter | None
    row_limit: int
    drop_overlaps: bool
    ending: str
    target: BinaryIO
    tally: GateCounts
    repeats: DuplicateIndex = field(default_factory=DuplicateIndex)


def run_gate(
    raw: Path,
    out: Path,
    *,
    row_limit: int,
    benchmark: Benchmark | None,
    golds: Iterable[str] = (),
    guard: OverlapGuard | None,
    drop_overlaps: bool,
    tokenizer: Path | None,
    cutoff_len: int | None,
    wrapping: ChatTemplate | None = None,
    ending: str = "",
    warnings: tuple[str, ...] = (),
    registration: Mapping[str, Any] | None = None,
    usual_script: str = "",
    strict: bool = False,
    media: tuple[Path, ...] = (),
) -> GateReport:
    """Check the script's `raw` file record by record; `golds` are right answers of some items.

    Rows that overlap with the test, or with the unseen half of validation, are dropped and counted. Those that overlap with
    validation items shown make an error that names them, or with `drop_overlaps` are dropped too.
    `tokenizer` is a tokenizer.json (None: lengths are not counted), `wrapping` the template's, `ending` what each output of
    Alpaca rows is to end with, `warnings` what the report says beside its own, `registration` the entry of
    dataset_info.json (none: plain Alpaca), `usual_script` that of the benchmark's prompts. `strict`, for a file that no script
    wrote: it may hold JSON lines, and rows that say nothing are errors rather than dropped. `media`: folders
    where files that rows name may lie; none: they are not looked for. Without `benchmark` and `guard`,
    answers and overlaps are not looked at. When the report has no errors, `out` holds `data.json` and `report.json`; otherwise
    neither, and `rejected.json` says why.
    """
    out.mkdir(parents=True, exist_ok=True)
    for name in (REPORT, DATA, REJECTED):
        (out / name).unlink(missing_ok=True)
    remove_partial_writes(out / DATA)
    part = out / f".{DATA}.{os.getpid()}.part"
    try:
        with ExitStack() as stack:
            target = stack.enter_context(part.open("wb"))
            framed = ended_template(wrapping or ChatTemplate(), ending)
            counter = TokenCounter(tokenizer, framed, cutoff_len) if tokenizer else None
            tokens = stack.enter_context(counter) if counter else None
            readable: Callable[[str], bool] = answer_reader(benchmark, golds) if benchmark else bool
            schema = schema_of(registration)
            judged_by = (benchmark, readable, guard, require_media(schema, *media) if media else schema)
            done = _Pass(*judged_by, tokens, row_limit, drop_overlaps, ending, target, GateCounts(raw.name, strict))
            # One of its own: a warm process would go on seeing a file that was exchanged meanwhile.
            broken = _run(raw, done, stack.enter_context(closing(RawDataReader())))
            target.flush()
            os.fsync(target.fileno())
            report = _report(raw, done, broken, wrapping.name if wrapping else None, usual_script, warnings)
        if report.ok:
            part.replace(out / DATA)
            fsync_path(out)
    finally:
        part.unlink(missing_ok=True)
    write_json(out / (REPORT if report.ok else REJECTED), report.model_dump(mode="json"))
    return report


def _run(raw: Path, done: _Pass, reader: RawDataReader) -> str:
    """Read, judge and write block by block; returns why the file cannot be read, or ""."""
    done.target.write(b"[")
    try:
        for block in reader.blocks(raw, lines=done.tally.strict):
            # Beyond the limit rows are only counted: the file is refused whatever they say.
            heeded = done.tally.kept <= done.row_limit
            rows, numbers = check_rows(block, done.schema, done.tally)
            if heeded and done.guard:
                rows, numbers = separate_overlaps(rows, numbers, done.guard, done.tally, drop=done.drop_overlaps)
            if rows and heeded:
                rows = [ended(row, done.ending) for row in rows] if done.ending else rows
                if done.tokens:
                    done.tokens.add(rows)
                _take(rows, numbers, block, done)
            done.tally.kept += len(rows)
    except (StreamError, InvalidRequestError) as e:
        return str(e)
    done.target.write(b"\n]\n")
    return ""


def check_rows(block: Block, schema: Schema, tally: GateCounts) -> tuple[list[TrainingRow], list[int]]:
    """Rows of a block that are whole, and their places in the file (from 1)."""
    kept, numbers = [], []
    read, fields, width = schema.read, schema.fields, len(schema.fields)
    for index, value in enumerate(block.rows):
        row = read(value)
        if type(row) is not TrainingRow:
            _count_wrong(row, block, index, tally)  # type: ignore[arg-type]
        elif not block.strict and is_unwritable(row):
            _count_wrong(
                RecordError("", "holds half a character (\\ud800 to \\udfff)", "whole Unicode text"),
                block,
                index,
                tally,
            )
        elif empty := find_empty_part(row):
            _count_empty(empty, schema.empty_field(empty, row), block, index, tally)
        else:
            kept.append(row)
            numbers.append(block.first + index)
        if type(value) is dict and (len(value) > width or not value.keys() <= fields):
            tally.extra_fields.update(value.keys() - fields)
    tally.read = block.first + len(block.rows) - 1
    return kept, numbers


def separate_overlaps(
    rows: list[TrainingRow], numbers: list[int], guard: OverlapGuard, tally: GateCounts, *, drop: bool
) -> tuple[list[TrainingRow], list[int]]:
    """The rows that do not overlap with the benchmarks; of the others only what agents may know is told."""
    kept = []
    hits = guard.find((row.system, *row.turns, *row.answers) for row in rows)
    for row, number, hit in zip(rows, numbers, hits, strict=True):
        if hit is None:
            kept.append((row, number))
        elif not hit.sealed and not drop:
            mark = hashlib.sha256(row.asked.encode()).hexdigest()[:MARK]
            found = {"row": number, "benchmark": hit.benchmark, "item": str(hit.id)}
            tally.overlap(Overlap(**found, text=row.asked[:TEXT], mark=mark))
        else:
            tally.dropped[f"overlap with {hit.split}"] += 1
    return [row for row, _ in kept], [number for _, number in kept]


def _count_wrong(why: RecordError, block: Block, index: int, tally: GateCounts) -> None:
    sentence = f"{why.found}; expected {why.expected}"
    tally.found_wrong(block.line_of(index), block.first + index, why.field, sentence)


def _count_empty(what: str, named: str, block: Block, index: int, tally: GateCounts) -> None:
    same = what == "no pair"
    row, line = block.first + index, block.line_of(index)
    if tally.strict:
        tally.found_wrong(line, row, named, "is the same as the chosen answer" if same else "is empty; expected text")
        return
    tally.dropped["chosen and rejected are the same" if same else f"empty {named}"] += 1
    tally.first_empty = tally.first_empty or f'row {row} field "{named}" (line {line})'


def _take(rows: list[TrainingRow], numbers: list[int], block: Block, done: _Pass) -> None:
    tally = done.tally
    for row, number in zip(rows, numbers, strict=True):
        if row.good is not None:
            tally.judged[row.good] += 1
        tally.bare += is_bare_answer(row.output)
        if done.readable(row.output):
            tally.parsed += 1
        elif not tally.first_unparsed:
            line = block.line_of(number - block.first)
            tally.first_unparsed = f"row {number}, line {line}, ends {row.output[-60:]!r}"
        letters = writing_script(row.asked)
        tally.scripts[letters] += 1
        if letters not in tally.first_of_script:
            tally.first_of_script[letters] = f"row {number} (line {block.line_of(number - block.first)})"
    done.repeats.add(rows, numbers)
    lines = (b",\n" if tally.kept else b"\n") + b",\n".join([orjson.dumps(row.kept) for row in rows])
    done.target.write(lines)
    tally.examined += len(rows)


def ended(row: TrainingRow, ending: str) -> TrainingRow:
    """The row, written with one ending behind its output and judged without: the script's own space and endings go."""
    output = row.output.rstrip()
    while output.endswith(ending):
        output = output.removesuffix(ending).rstrip()
    return row._replace(answers=(output,), kept={**row.kept, "output": output + ending})


def ended_template(template: ChatTemplate, ending: str) -> ChatTemplate:
    """The template with the ending behind each answer, so that its tokens are counted."""
    return replace(template, assistant=replace(template.assistant, after=template.assistant.after + ending))


def _report(
    raw: Path, done: _Pass, broken: str, template: str | None, usual_script: str, warnings: tuple[str, ...]
) -> GateReport:
    tally, lengths, repeats = done.tally, done.tokens.finish() if done.tokens else Lengths(), done.repeats.found()
    return GateReport(
        source=digest_file(raw),
        read=tally.read,
        rows=tally.kept,
        row_limit=done.row_limit,
        dropped=dict(sorted(tally.dropped.items())),
        exact_duplicates=repeats.exact,
        near_duplicates=repeats.near,
        reasked=repeats.reasked,
        parsed=round(100 * tally.parsed / tally.examined, 2) if tally.examined else 0.0,
        template=template,
        ending=done.ending,
        lengths=lengths,
        scripts=script_shares(tally.scripts) if tally.scripts else {},
        errors=tuple(gate_errors(tally, broken, done.row_limit, done.benchmark, lengths)),
        overlaps=tuple(tally.overlaps),
        warnings=(*warnings, *gate_warnings(tally, lengths, repeats, usual_script, done.benchmark)),
    )
