"""Reads a JSON list value by value, so that a file far larger than memory can be checked."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

CHUNK = 1 << 20
LARGEST_VALUE = 128 << 20  # characters
NUMBER = "0123456789.eE+-"
SPACE = " \t\n\r"
# A value cut at the buffer's end fails within this many characters of the end, or as an unterminated string.
NEAR_END = 16


class StreamError(ValueError):
    """The file is no JSON list; the text says where."""


class RepeatedKeyError(ValueError):
    """An object names a key twice: programs differ in which of the two values they read."""


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of its pairs. Raises RepeatedKeyError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RepeatedKeyError(f"an object names the key {twice[:100]!r} twice; right is once")
    return found


ONCE, ANY = json.JSONDecoder(object_pairs_hook=once), json.JSONDecoder()


def distinct(names: list[str]) -> list[str]:
    """Names of which each stands once: the last of several keeps its name, those before it get a number."""
    last = {name: place for place, name in enumerate(names)}
    taken, found = set(names), []
    for place, name in enumerate(names):
        numbered = (f"{name}.{i}" for i in itertools.count(1))
        found.append(name if last[name] == place else next(one for one in numbered if one not in taken))
        taken.add(found[-1])
    return found


def stream_rows(path: Path, chunk: int = CHUNK) -> Iterator[Any]:
    """Values of the list in `path`, in order. Raises StreamError with the row (from 1) where reading stopped."""
    try:
        with path.open(encoding="utf-8") as f:
            yield from (value for _, value in Reader(f, chunk).rows())
    except UnicodeDecodeError as e:
        raise not_utf8(e) from e


def not_utf8(e: UnicodeDecodeError) -> StreamError:
    """The sentence for bytes that are no text."""
    return StreamError(f"not UTF-8 text ({e.reason}); right is json.dump into a file opened with encoding utf-8")


class Reader:
    """A window over the text, moved forward."""

    def __init__(self, source: TextIO, chunk: int, decoder: json.JSONDecoder = ONCE) -> None:
        self.source, self.chunk, self.decoder = source, chunk, decoder
        self.buffer, self.at, self.over = "", 0, False
        self.line, self.counted = 1, 0
        self.taken = 0  # characters of values

    def rows(self) -> Iterator[tuple[int, Any]]:
        """The values between the brackets, each with the line (from 1) on which it begins."""
        if self.skip() != "[":
            raise StreamError("not a JSON list; right is [{...}, {...}] with one object a record")
        self.at += 1
        if self.skip() == "]":
            self.at += 1
            self.end(0)
        else:
            yield from self.inside(0, self.line)

    def inside(self, number: int, line: int) -> Iterator[tuple[int, Any]]:
        """The values from one on that follows a comma; `number` came before it, `line` is where the text begins."""
        self.line = line
        while True:
            number += 1
            self.skip()
            yield self.here(), self.value(number)
            mark = self.skip()
            self.at += 1
            if mark == "]":
                break
            if mark != ",":
                raise StreamError(
                    f"row {number}: {'cut short' if not mark else f'followed by {mark!r}'}; right is , or ]"
                )
        self.end(number)

    def end(self, number: int) -> None:
        """Nothing may follow the list."""
        if self.skip():
            raise StreamError(f"goes on after the list's end (row {number}); right is one list and nothing else")

    def here(self) -> int:
        """The line that the window's position is on."""
        self.line += self.buffer.count("\n", self.counted, self.at)
        self.counted = self.at
        return self.line

    def skip(self) -> str:
        """Move to the next character that is no white space and return it; "" at the end."""
        while True:
            while self.at < len(self.buffer):
                if self.buffer[self.at] not in SPACE:
                    return self.buffer[self.at]
                self.at += 1
            if not self.more():
                return ""

    def more(self) -> bool:
        """Read on; at least as much as is waiting, so that a huge value costs linear time. Raises StreamError."""
        if len(self.buffer) - self.at > LARGEST_VALUE:
            raise StreamError(
                f"line {self.here()}: one value of more than {LARGEST_VALUE >> 20} MB; right are small ones"
            )
        text = "" if self.over else self.source.read(max(self.chunk, len(self.buffer) - self.at))
        self.over = not text
        self.here()
        self.counted = 0
        self.buffer, self.at = self.buffer[self.at :] + text, 0
        return bool(text)

    def value(self, number: int) -> Any:
        """Decode the next value."""
        self.skip()
        while True:
            try:
                value, end = self.decoder.raw_decode(self.buffer, self.at)
            except json.JSONDecodeError as e:
                cut = e.pos > len(self.buffer) - NEAR_END or e.msg.startswith("Unterminated")
                if cut and self.more():
                    continue
                raise StreamError(f"row {number}: broken JSON: {e.msg}") from e
            except RecursionError as e:
                raise StreamError(f"row {number}: nested too deeply") from e
            except RepeatedKeyError as e:
                raise StreamError(f"row {number}: {e}") from e
            except ValueError as e:
                raise StreamError(f"row {number}: a number of too many digits") from e
            if isinstance(value, int | float) and not self.buffer[end:].strip(NUMBER) and self.more():
                continue  # the number may go on behind the buffer's end: 1 of 1.5
            self.taken += end - self.at
            self.at = end
            return value
