"""A run's `events.jsonl`: appended by one writer, read by anyone while it is being written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from tuneloop.core.events import EVENT, Event
from tuneloop.core.files import LARGEST_LINES, append_line, damaged, open_plain, raw_lines

# A long log is read in portions of this many events, which bounds memory.
PORTION = 10_000
BLOCK = 1 << 20
LONGEST_EVENT = 1 << 24


def append(path: Path, event: Event) -> None:
    """Write one line."""
    append_line(path, event.model_dump_json(exclude_none=True))


def read_events(path: Path, offset: int = 0, most: int = PORTION) -> tuple[list[Event], int]:
    """At most `most` events of the whole lines after byte `offset`, and the offset to go on from; none: nothing is left.

    A torn last line waits until it is whole; a line that a crash damaged or a newer version wrote is skipped.
    """
    found: list[Event] = []
    for line in whole_lines(path, offset):
        offset += len(line)
        if (event := parse_event(line)) is not None:
            found.append(event)
            if len(found) >= most:
                break
    return found, offset


def iter_events(path: Path, kind: str = "") -> Iterator[Event]:
    """All events one after another, or those of one kind; lines of other kinds are not even parsed."""
    mark = f'"kind":"{kind}"'.encode() if kind else b""
    for line in whole_lines(path, 0):
        if mark in line and (event := parse_event(line)) is not None and (not kind or event.kind == kind):
            yield event


def last_event(path: Path, kind: str, within: int) -> Event | None:
    """The newest event of a kind in the last `within` bytes."""
    return next(events_backwards(path, within, kind), None)


def events_backwards(path: Path, within: int, *kinds: str) -> Iterator[Event]:
    """Events in the last `within` bytes, the newest first, of these kinds alone where some are named."""
    marks = [f'"kind":"{kind}"'.encode() for kind in kinds]
    for line in lines_backwards(path, within):
        if kinds and not any(mark in line for mark in marks):
            continue
        if (event := parse_event(line)) is not None and (not kinds or event.kind in kinds):
            yield event


def lines_backwards(path: Path, within: int) -> Iterator[bytes]:
    """Lines in the last `within` bytes, the newest first, the last of them perhaps torn; no more is read than is asked for."""
    if not path.is_file():
        return
    with open_plain(path, LARGEST_LINES) as f:
        end, rest = f.seek(0, 2), b""
        first = max(0, end - within)
        while end > first and len(rest) <= LONGEST_EVENT:
            begin = max(first, end - BLOCK)
            f.seek(begin)
            rest, *lines = (f.read(end - begin) + rest).split(b"\n")
            yield from reversed(lines)
            end = begin
    yield rest


def whole_lines(path: Path, offset: int = 0) -> Iterator[bytes]:
    """Lines after byte `offset` that end; none when there is no file."""
    if not path.is_file():
        return
    for line in raw_lines(path, offset):
        if not line.endswith(b"\n"):
            return
        yield line


def parse_event(line: bytes) -> Event | None:
    """The event of a line; None when it is damaged or a newer version wrote it."""
    try:
        return EVENT.validate_json(line)
    except ValidationError:
        return None


# `events.jsonl` is read from its end: a late reader needs only the last lines.


def whole_blocks(path: Path, offset: int = 0) -> Iterator[bytes]:
    """Whole lines after byte `offset`, about BLOCK bytes at a time. Raises as `find_last_event_offset`."""
    if not path.is_file():
        return
    rest = b""
    with open_plain(path, LARGEST_LINES) as f:
        f.seek(offset)
        while data := f.read(BLOCK):
            whole, newline, data = data.rpartition(b"\n")
            if newline:
                yield rest + whole + newline
                rest = data
            else:
                rest += data
            if len(rest) > LONGEST_EVENT:
                raise damaged(path, f"a line of more than {LONGEST_EVENT} bytes")


def find_last_event_offset(path: Path, kind: str, before: int | None = None) -> int | None:
    """Byte offset of the newest line with an event of `kind` that begins before byte `before`; None: there is none.

    Raises DamagedFileError for a line without an end.
    """
    # A JSON string cannot contain this: its quotes would be escaped.
    mark, rest = f'"kind":"{kind}"'.encode(), b""
    try:
        with open_plain(path, LARGEST_LINES) as f:
            end = f.seek(0, 2) if before is None else before
            while end > 0:
                begin = max(0, end - BLOCK)
                f.seek(begin)
                data = f.read(end - begin) + rest
                start = data.rfind(b"\n", 0, max(0, data.rfind(mark))) + 1
                if mark in data and (start or begin == 0):
                    return begin + start
                end, rest = begin, data[: data.find(b"\n") + 1 or len(data)]
                if len(rest) > LONGEST_EVENT:
                    raise damaged(path, f"a line of more than {LONGEST_EVENT} bytes")
    except FileNotFoundError:
        return None
    return None
