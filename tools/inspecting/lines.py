"""Lines of a raw text file as UTF-8, in blocks that stay in the processor's cache; no line is longer than memory allows."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from tuneloop.core.raw import HEAD, encoding_of, open_raw

BLOCK = 1 << 19  # bytes: of larger blocks the values leave the processor's cache before they are counted
MOST = 512  # lines: short rows take more as values than as text
SIZE = 1 << 18
LONGEST = 64 << 20
WIDE = ("utf-16", "utf-32")

Refused = Callable[[int, str, bytes], None]


class Recoded(io.RawIOBase):
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
def utf8(path: Path, start: int) -> Iterator[BinaryIO]:
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
            yield io.BufferedReader(Recoded(f, encoding), SIZE)


def blocks(path: Path, refused: Refused, start: int = 0, stop: int = 0) -> Iterator[tuple[int, list[bytes]]]:
    """The number (from 1) of a block's first line, and its lines with their ends.

    `start` and `stop` are bytes at which lines of a plain UTF-8 file begin; 0: all of it.
    A line beyond 64 MB is left out and told to `refused`; in its place is an empty one.
    """
    number, size, lost, left = 1, 0, False, stop - start
    lines: list[bytes] = []
    with utf8(path, start) as f:
        for line in iter(partial(f.readline, LONGEST), b""):
            size += len(line)
            if lost:  # what follows of a line that was too long
                lost = not line.endswith(b"\n")
            elif len(line) >= LONGEST and not line.endswith(b"\n"):
                lost = True
                refused(number + len(lines), f"a line of more than {LONGEST >> 20} MB, which is not read", b"")
                lines.append(b"\n")
            else:
                lines.append(line)
            if size >= BLOCK or len(lines) >= MOST or size == left:
                yield number, lines
                number, left, size, lines = number + len(lines), left - size, 0, []
                if left == 0:
                    return
    if lines:
        yield number, lines
