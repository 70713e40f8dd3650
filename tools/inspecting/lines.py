"""Lines of a raw text file as UTF-8, in blocks that stay in the processor's cache; no line is longer than memory allows."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from pathlib import Path

from tuneloop.core.raw import HEAD, encoding_of, open_raw

SIZE = 1 << 19  # bytes: of larger blocks the values leave the cache before they are counted
LONGEST = 64 << 20
WIDE = ("utf-16", "utf-32")

Refused = Callable[[int, str, bytes], None]


def utf8(path: Path, size: int) -> Iterator[bytes]:
    """The text in pieces; bytes that are no text in its encoding stay as they are, so that their line is seen to be broken."""
    with open_raw(path) as f:
        head = f.read(HEAD)
        encoding = encoding_of(head)
        if encoding.startswith("utf-8"):
            head = head.removeprefix(codecs.BOM_UTF8)
            yield from (head[i : i + size] for i in range(0, len(head), size))
            while piece := f.read(size):
                yield piece
            return
        errors = "replace" if encoding.startswith(WIDE) else "surrogateescape"
        decoder = codecs.getincrementaldecoder(encoding)(errors)
        while head:
            yield decoder.decode(head).encode("utf-8", "surrogateescape")
            head = f.read(size)
        yield decoder.decode(b"", final=True).encode("utf-8", "surrogateescape")


def blocks(path: Path, refused: Refused, size: int = SIZE) -> Iterator[tuple[int, list[bytes]]]:
    """The number (from 1) of a block's first line, and its lines without their ends.

    A line beyond 64 MB is left out and told to `refused`; in its place is an empty one.
    """
    number, waiting, held, lost = 1, [b""], 0, 0
    for piece in utf8(path, size):
        cut = piece.rfind(b"\n") + 1
        if not cut:
            waiting.append(piece)
            held += len(piece)
            if held > LONGEST:
                waiting, held, lost = [], 0, lost + held
            continue
        if lost:
            refused(number, too_long(lost + held), b"")
            waiting = [b"\n", piece[piece.find(b"\n") + 1 : cut]]
        else:
            waiting.append(piece[:cut])
        lines = b"".join(waiting).splitlines()
        yield number, lines
        number += len(lines)
        waiting, held, lost = [piece[cut:]], len(piece) - cut, 0
    if lost:
        refused(number, too_long(lost + held), b"")
    elif lines := b"".join(waiting).splitlines():
        yield number, lines


def too_long(count: int) -> str:
    """What is wrong with a line of so many bytes."""
    return f"a line of more than {count >> 20} MB; at most {LONGEST >> 20} MB are read"
