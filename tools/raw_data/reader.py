"""One raw file read in batches of rows, whatever its format; lines that are no rows are counted, and the first are kept."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from tuneloop.core.formatting import format_size
from tuneloop.core.records import (
    HEAD,
    UNREADABLE,
    cell,
    encoding_of,
    kind_of,
    longest_list,
    open_raw,
    open_text,
    packing_of,
    records,
    table_rows,
)
from tuneloop.tools.data_gate.records import json_kind as said
from tuneloop.tools.raw_data.json_blocks import may_repeat_keys, stream_blocks
from tuneloop.tools.raw_data.json_stream import ANY, CHUNK, Reader, StreamError, distinct

# Lines of a raw text file as UTF-8, in blocks that stay in the processor's cache; no line is longer than memory allows.

BLOCK = 1 << 19  # bytes: of larger blocks the values leave the processor's cache before they are counted
MOST = 512  # lines: short rows take more as values than as text
SIZE = 1 << 18
LONGEST = 64 << 20
WIDE = ("utf-16", "utf-32")
LINE = re.compile(rb"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")  # data scripts end lines at a lone carriage return, too

OnBadLine = Callable[[int, str, bytes], None]


class Utf8Reader(io.RawIOBase):
    """A text in another encoding, read as UTF-8; bytes that are no text stay as they are: their line is seen to be broken."""

    def __init__(self, source: BinaryIO, encoding: str) -> None:
        self._source, self._waiting = source, b""
        errors = "replace" if encoding.startswith(WIDE) else "surrogateescape"
        self._decoder = codecs.getincrementaldecoder(encoding)(errors)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As much as there is room for; 0 at the end."""
        while not self._waiting:
            piece = self._source.read(SIZE)
            self._waiting = self._decoder.decode(piece, final=not piece).encode("utf-8", "surrogateescape")
            if not piece:
                break
        taken, self._waiting = self._waiting[: len(buffer)], self._waiting[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


@contextmanager
def open_utf8(path: Path, start: int) -> Iterator[BinaryIO]:
    """The text from a byte on, whatever it is packed and encoded in; a byte order mark is no part of it."""
    with open_raw(path) as f:
        head = f.read(HEAD)
    encoding = encoding_of(head)
    with open_raw(path) as f:
        if start:
            f.seek(start)
            yield f
        elif encoding.startswith("utf-8"):
            f.read(len(codecs.BOM_UTF8) * head.startswith(codecs.BOM_UTF8))
            yield f
        else:
            yield io.BufferedReader(Utf8Reader(f, encoding), SIZE)


def line_blocks(path: Path, refused: OnBadLine, start: int = 0, stop: int = 0) -> Iterator[tuple[int, list[bytes]]]:
    """The number (from 1) of a block's first line, and its lines with their ends.

    `start` and `stop` are bytes at which lines of a plain UTF-8 file begin; 0: all of it.
    A line beyond 64 MB is left out and told to `refused`; in its place is an empty one.
    """
    number, taken, held, lost = 1, 0, 0, False
    lines: list[bytes] = []
    with open_utf8(path, start) as f:
        for line in iter(partial(f.readline, LONGEST), b""):
            taken += len(line)
            pieces: Iterable[bytes] = (line,) if b"\r" not in line else (found[0] for found in LINE.finditer(line))
            if lost:  # what follows of a line that was too long
                lost, pieces = not line.endswith(b"\n"), ()
            elif len(line) >= LONGEST and not line.endswith(b"\n"):
                lost, pieces = True, (b"\n",)
                refused(number + len(lines), f"a line of more than {LONGEST >> 20} MB, which is not read", b"")
            for piece in pieces:
                lines.append(piece)
                held += len(piece)
                if held >= BLOCK or len(lines) == MOST:
                    yield number, lines
                    number, held, lines = number + len(lines), 0, []
            if taken == stop - start:
                break
    if lines:
        yield number, lines


BATCH = 200
SHOWN, WIDTH = 5, 200
HELD = 100_000  # bytes of a broken line that are held
DOCUMENT = 64 << 20  # bytes of a JSON document that is no list

on_open: Callable[[Path], None] | None = None  # told each file before it is read, where somebody has to know

Row = dict[str, Any]
Batch = tuple[Sequence[int], list[Row]]


@dataclass(frozen=True)
class BrokenLine:
    """A line (from 1; of a file without lines, the row) that is no row, or one with too many or too few cells."""

    line: int
    why: str
    text: str
    whole: str = ""  # of which `text` is the beginning


@dataclass
class RawFile:
    """A file, and after its batches were read: how many rows it held, what was broken, and why it was not read to its end.

    `start` and `stop` are bytes at which lines of plain JSON Lines begin, 0 for all; `last` is the last line's number.
    `refused` is told every broken line; `partial`: the file holds more than its rows and these lines, with `whole_only` also
    where a key or column may stand twice in it, of which a row has the last value alone; with `every_value` the row has the
    earlier ones too, of `name` as `name.1`, `name.2`.
    """

    path: Path
    start: int = 0
    stop: int = 0
    rows: int = 0
    last: int = 0
    broken: int = 0
    shown: list[BrokenLine] = field(default_factory=list)
    read_error: str = ""
    consumed: int = 0  # bytes of text so far, for whoever waits; 0 for formats without lines
    partial: bool = False
    refused: Callable[[int, str], None] | None = None
    whole_only: bool = False
    every_value: bool = False

    @property
    def kind(self) -> str:
        """`jsonl`, of `rows.jsonl.gz` too."""
        return kind_of(self.path)[1:]

    def encoding(self) -> str:
        """Of a text file; "" for formats that are none, or where the file cannot be opened."""
        if self.kind in ("parquet", "arrow", "feather"):
            return ""
        try:
            with open_raw(self.path) as f:
                return encoding_of(f.read(HEAD)).removesuffix("-sig")
        except UNREADABLE:
            return ""

    def packing(self) -> str:
        """gz, bz2, xz, zst or ""."""
        return packing_of(self.path)

    def batches(self) -> Iterator[Batch]:
        """Lines (or numbers) and rows. A file that cannot be read on ends here, and `failure` says why."""
        self.rows, self.broken, self.shown, self.read_error, self.consumed = 0, 0, [], "", 0
        read: dict[str, Callable[[], Iterator[Batch]]] = {
            "jsonl": self.objects, "ndjson": self.objects, "csv": self.table, "tsv": self.table, "txt": self.text,
            "json": self.document,
        }  # fmt: skip
        if on_open is not None:
            on_open(self.path)
        try:
            for numbers, rows in read.get(self.kind, self.columns)():
                self.rows += len(rows)
                yield numbers, rows
        except UNREADABLE as e:
            self.read_error = f"reading stopped after {self.rows} rows: {' '.join(str(e).split()) or type(e).__name__}"[
                :300
            ]

    def refuse(self, line: int, why: str, text: bytes = b"") -> None:
        """Count a broken line; the first five are kept."""
        self.broken += 1
        if self.refused is not None:
            self.refused(line, text.decode("utf-8", "replace") if text else " " * HELD)
        if len(self.shown) < SHOWN:
            whole = text[:HELD].decode("utf-8", "replace").strip()
            self.show(BrokenLine(line, why, whole[:WIDTH], whole))

    def show(self, line: BrokenLine) -> None:
        """Keep a broken line, if it is among the first five."""
        if len(self.shown) < SHOWN:
            self.shown.append(line)

    def compare(self, text: bytes, value: Any) -> None:
        """Note where the text may hold more than its value."""
        if self.whole_only and not (self.partial or self.every_value):
            self.partial = may_repeat_keys(text, value)

    def object_of(self, pairs: list[tuple[str, Any]]) -> Row:
        """An object of its pairs; note where a key stands twice, or keep its earlier values under other names."""
        found = dict(pairs)
        if len(found) < len(pairs):
            if self.every_value:
                return dict(zip(distinct([p[0] for p in pairs]), [p[1] for p in pairs], strict=True))
            self.partial |= self.whole_only
        return found

    def lines(self) -> Iterator[tuple[int, list[bytes]]]:
        """Numbers of first lines and blocks of lines."""
        for first, lines in line_blocks(self.path, self.refuse, self.start, self.stop):
            self.last = first + len(lines) - 1
            self.consumed += sum(map(len, lines))
            yield first, lines

    def objects(self) -> Iterator[Batch]:
        """JSON Lines."""
        for first, lines in self.lines():
            try:
                rows = list(map(orjson.loads, lines))
            except orjson.JSONDecodeError:
                yield self.sifted(first, lines)
                continue
            repeats = self.every_value and may_repeat_keys(b"".join(lines), rows)
            if set(map(type, rows)) == {dict} and not repeats:
                self.compare(b"".join(lines), rows)
                yield range(first, first + len(rows)), rows
            else:
                yield self.sifted(first, lines)

    def sifted(self, first: int, lines: list[bytes]) -> Batch:
        """Line by line; what the strict parser refuses may still be JSON as Python writes it (NaN, halves of characters)."""
        numbers, rows = [], []
        for number, line in enumerate(lines, first):
            if not line.strip():
                continue
            value, why = parse_line(line, self.object_of if self.whole_only else None)
            if not why and type(value) is dict:
                numbers.append(number)
                rows.append(value)
            else:
                self.refuse(number, why or f"{said(value)}, no object", line)
        return numbers, rows

    def text(self) -> Iterator[Batch]:
        """Lines of plain text."""
        for first, lines in self.lines():
            full = [(number, self.decoded(number, line)) for number, line in enumerate(lines, first) if line.strip()]
            yield [number for number, _ in full], [{"text": text.rstrip("\r\n")} for _, text in full]

    def decoded(self, number: int, line: bytes) -> str:
        """The line; bytes that are no text are counted as broken and shown as �."""
        try:
            return line.decode()
        except UnicodeDecodeError:
            self.refuse(number, "bytes that are no text in the file's encoding", line)
            return line.decode("utf-8", "replace")

    def table(self) -> Iterator[Batch]:
        """CSV and TSV; a row with too many cells or too few is read as far as it goes, and counted as broken."""
        csv.field_size_limit(LONGEST)
        lines = (
            self.decoded(number, line) for first, block in self.lines() for number, line in enumerate(block, first)
        )
        reader = table_rows(self.path, lines)
        names: list[str] = next(filter(None, reader), [])
        names = distinct(names) if self.every_value else names
        self.partial |= self.whole_only and len(set(names)) < len(names)
        while found := list(itertools.islice(self.cells(reader, names), BATCH)):
            yield [number for number, _ in found], [row for _, row in found]

    def cells(self, reader: Any, names: list[str]) -> Iterator[tuple[int, Row]]:
        """Rows of a table with the lines they end on."""
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(names):
                text = ",".join(cells).encode("utf-8", "replace")
                self.refuse(reader.line_num, f"{len(cells)} cells, the header has {len(names)}", text)
            hook = self.object_of if self.every_value else None
            row = dict(zip(names, (cell(text, hook) for text in cells), strict=False))
            for text, value in zip(cells, row.values(), strict=False):
                if type(value) is not str:
                    self.compare(text.encode("utf-8", "replace"), value)
            yield reader.line_num, row

    def document(self) -> Iterator[Batch]:
        """A JSON list, value by value; any other document whole; or JSON Lines in disguise."""
        with open_text(self.path) as f:
            head = f.read(1 << 16).lstrip()
        if head[:1] == "[":
            yield from self.listed()
        elif self.many_lines(head):
            yield from self.objects()
        else:
            yield from self.whole()

    def many_lines(self, head: str) -> bool:
        """Whether the first line is an object and others follow."""
        first, _, rest = head.partition("\n")
        return bool(rest.strip()) and type(parse_line(first.encode("utf-8", "replace"))[0]) is dict

    def listed(self) -> Iterator[Batch]:
        """The values of a list, quickly in blocks; where those end early, value by value up to the fault."""
        read = 0
        if not self.packing() and self.encoding() == "utf-8" and not self.marked():
            with suppress(StreamError):
                for block in stream_blocks(self.path):
                    read += len(block.rows)
                    yield self.picked(enumerate(block.rows, block.first))
                return
        with open_text(self.path) as f:
            decoder = json.JSONDecoder(object_pairs_hook=self.object_of) if self.whole_only else ANY
            values = (value for _, value in Reader(f, CHUNK, decoder).rows())
            for batch in until_stream_error(itertools.islice(enumerate(values, 1), read, None)):
                yield self.picked(batch)

    def marked(self) -> bool:
        """Whether a byte order mark comes first."""
        with self.path.open("rb") as f:
            return f.read(1) == b"\xef"

    def picked(self, found: Iterable[tuple[int, Any]]) -> Batch:
        """The objects among the values of a list."""
        numbers, rows = [], []
        for number, value in found:
            if type(value) is dict:
                numbers.append(number)
                rows.append(value)
            else:
                self.refuse(number, f"{said(value)}, no object", str(value).encode("utf-8", "replace"))
        return numbers, rows

    def whole(self) -> Iterator[Batch]:
        """The longest list of objects inside one document. Raises ValueError for what is too large to be held."""
        with open_raw(self.path) as raw:
            data = raw.read(DOCUMENT + 1)
        if len(data) > DOCUMENT:
            raise ValueError(
                f"one JSON document beyond {format_size(DOCUMENT)}; right is a list of objects, or JSON Lines"
            )
        text = data.decode(encoding_of(data[:HEAD]))
        del data
        if not text.strip():
            return
        self.partial = True  # the longest list of a document is not all of it
        try:
            found = longest_list(json.loads(text, object_pairs_hook=self.object_of if self.every_value else None))
        except RecursionError as e:
            raise ValueError("nested too deeply") from e
        for start in range(0, len(found), BATCH):
            yield self.picked(enumerate(found[start : start + BATCH], start + 1))

    def columns(self) -> Iterator[Batch]:
        """Parquet and Arrow."""
        rows, first = records(self.path), 1
        while found := list(itertools.islice(rows, BATCH)):
            yield range(first, first + len(found)), found
            first += len(found)


def until_stream_error(values: Iterator[tuple[int, Any]]) -> Iterator[list[tuple[int, Any]]]:
    """Batches; what came before a StreamError is handed out before it is raised."""
    batch: list[tuple[int, Any]] = []
    try:
        for pair in values:
            batch.append(pair)
            if len(batch) == BATCH:
                yield batch
                batch = []
    except StreamError:
        yield batch
        raise
    yield batch


def parse_line(line: bytes, hook: Callable[[list[tuple[str, Any]]], Row] | None = None) -> tuple[Any, str]:
    """The value of a line, and what is wrong with it; "" where nothing is."""
    try:
        return json.loads(line, object_pairs_hook=hook), ""
    except UnicodeDecodeError:
        return None, "bytes that are no text in the file's encoding"
    except RecursionError:
        return None, "nested too deeply"
    except ValueError as e:
        return None, f"not JSON: {e}"
