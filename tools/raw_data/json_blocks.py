"""Reads a JSON list, or JSON lines, in blocks of whole records, at the speed of a compiled parser and in bounded memory."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from tuneloop.tools.raw_data.json_stream import Reader, StreamError, not_utf8, once

SIZE = 1 << 19
LARGEST = 16 << 20  # a block that finds no end within this many bytes is read value by value
TRIES = 4
ROWS = 1000
FIRST_KEY = re.compile(rb'\s*\{\s*("(?:[^"\\]|\\.)*")\s*:')
SPACE = b" \t\r\n"


@dataclass(frozen=True)
class Block:
    """Records in order. `first` counts from 1; `strict`: no text in it can hold half a character.

    `lines` has the line (from 1) of each record, or is found from `raw`, the text between two commas, and `line`.
    """

    rows: list[Any]
    first: int
    strict: bool
    line: int
    raw: bytes = b""
    lines: tuple[int, ...] = ()

    def line_of(self, index: int) -> int:
        """The line in the file on which the record at `index` of this block begins."""
        if self.lines:
            return self.lines[index]
        return next(
            islice(Reader(io.StringIO(self.raw.decode("utf-8", "replace")), SIZE).inside(0, self.line), index, None)
        )[0]


def stream_blocks(path: Path, size: int = SIZE) -> Iterator[Block]:
    """The list in `path`. Raises StreamError with the row (from 1) where reading stopped."""
    with path.open("rb") as f:
        yield from _BlockReader(f, size).blocks()


def stream_list_or_lines(path: Path) -> Iterator[Block]:
    """The same, or the values of JSON lines: told apart by the first character, as the engine does."""
    with path.open("rb") as f:
        begin = f.read(SIZE).lstrip(SPACE)[:1]
        if begin != b"{":
            yield from stream_blocks(path)
            return
        f.seek(0)
        number, lines = 0, ((n, line) for n, line in enumerate(f, 1) if line.strip())
        while batch := list(islice(lines, ROWS)):
            rows = [_line_value(n, line) for n, line in batch]
            yield Block(rows, number + 1, False, batch[0][0], lines=tuple(n for n, _ in batch))
            number += len(rows)


def may_repeat_keys(text: bytes, value: Any) -> bool:
    """Whether an object in a JSON text may name a key twice, of which `value` has the last: then quotes are missing in it.

    An escaped quote could stand for one that is missing; and what cannot be written again cannot be compared.
    """
    try:
        return text.count(b'"') != orjson.dumps(value).count(b'"') or b"\\u0022" in text
    except (TypeError, RecursionError):
        return True


def _line_value(number: int, line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8"), object_pairs_hook=once)
    except UnicodeDecodeError as e:
        raise not_utf8(e) from e
    except RecursionError as e:
        raise StreamError(f"line {number} is no JSON (nested too deeply); right is one object a line, or a list") from e
    except ValueError as e:
        raise StreamError(f"line {number} is no JSON ({e}); right is one object a line, or a list") from e


class _BlockReader:
    """A window over the bytes: cut where a record ends, which parsing proves; what resists is left to the slow reader."""

    def __init__(self, source: BinaryIO, size: int) -> None:
        self.source, self.size = source, size
        self.buffer, self.at = b"", 0
        self.number, self.line, self.closed = 0, 1, False

    def blocks(self) -> Iterator[Block]:
        """Fast while it can, slow for the rest."""
        self.more()
        start = len(self.buffer) - len(self.buffer.lstrip(SPACE))
        first = FIRST_KEY.match(self.buffer, start + 1)
        if self.buffer[start : start + 1] != b"[" or not first:
            yield from _read_slowly(self.source, 0, 0, 1, whole=True)
            return
        self.consume(start + 1)
        border = re.compile(rb"\}(\s*),\s*\{\s*" + re.escape(first[1]) + rb"\s*:")
        while (block := self.block(border)) is not None:
            yield block
        if not self.closed:
            yield from _read_slowly(self.source, self.at, self.number, self.line, whole=False)

    def more(self) -> bool:
        """Read at least as much as is waiting."""
        text = self.source.read(max(self.size, len(self.buffer)))
        self.buffer += text
        return bool(text)

    def consume(self, count: int) -> bytes:
        """Move over `count` bytes."""
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        self.at += count
        self.line += taken.count(b"\n")
        return taken

    def block(self, border: re.Pattern[bytes]) -> Block | None:
        """The next one; None behind the list's end, or where only the slow reader can go on."""
        while not self.closed:
            over = len(self.buffer) < self.size and not self.more()
            if over:
                return self.last()
            for end, after in _ends(border, self.buffer):
                if (found := _parsed(self.buffer[:end] + b"]")) is not None:
                    return self.take(found, after)
            if len(self.buffer) > LARGEST:
                return None
            if not self.more():
                return self.last()
        return None

    def last(self) -> Block | None:
        """What is left, with the list's end; after a comma a record must follow."""
        found = _parsed(self.buffer) if self.buffer else None
        if found is None or (not found[0] and self.number):
            return None
        self.closed = True
        return self.take(found, len(self.buffer))

    def take(self, found: tuple[list[Any], bool], count: int) -> Block:
        """Count and move on."""
        (rows, strict), first, line = found, self.number + 1, self.line
        self.number += len(rows)
        return Block(rows, first, strict, line, self.consume(count))


def _ends(border: re.Pattern[bytes], buffer: bytes) -> Iterator[tuple[int, int]]:
    """Where records seem to end, and the place behind the comma; the last ones, last first."""
    begin = max(0, len(buffer) - (1 << 16))
    found = list(border.finditer(buffer, begin)) or list(border.finditer(buffer))
    for match in found[: -TRIES - 1 : -1]:
        end = match.end(1)
        yield end, end + 1


def _parsed(text: bytes) -> tuple[list[Any], bool] | None:
    """The list whose `[` was taken already, and whether every text is whole Unicode; None: it is none, or repeats keys."""
    whole, strict = b"[" + text, False
    try:
        rows, strict = orjson.loads(whole), True
        if not may_repeat_keys(whole, rows):
            return rows, True
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(whole, object_pairs_hook=once), strict
    except (ValueError, RecursionError):
        return None


def _read_slowly(source: BinaryIO, at: int, number: int, line: int, *, whole: bool) -> Iterator[Block]:
    source.seek(at)
    reader = Reader(io.TextIOWrapper(source, encoding="utf-8"), SIZE)
    try:
        found = reader.rows() if whole else reader.inside(number, line)
        while batch := list(_some(found, reader)):
            yield Block([v for _, v in batch], number + 1, False, batch[0][0], lines=tuple(n for n, _ in batch))
            number += len(batch)
    except UnicodeDecodeError as e:
        raise not_utf8(e) from e


def _some(found: Iterator[tuple[int, Any]], reader: Reader) -> Iterator[tuple[int, Any]]:
    """The next values, fewer where they are large."""
    end = reader.taken + LARGEST
    for pair in islice(found, ROWS):
        yield pair
        if reader.taken > end:
            return


__all__ = ["Block", "StreamError", "stream_blocks"]
