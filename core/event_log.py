"""A run's `events.jsonl`: appended by one writer, read by anyone while it is being written."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from tuneloop.core.events import EVENT, Event


def append(path: Path, event: Event) -> None:
    """Write one line. A line that a crash tore is ended first, so that only it is lost."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as f:
        size = f.seek(0, 2)
        torn = size > 0 and (f.seek(size - 1), f.read(1))[1] != b"\n"
        f.write((b"\n" if torn else b"") + event.model_dump_json(exclude_none=True).encode() + b"\n")


def read_events(path: Path, offset: int = 0) -> tuple[list[Event], int]:
    """Events of the whole lines after byte `offset`, and the offset to go on from.

    A torn last line waits until it is whole; a line that a crash damaged or a newer version wrote is skipped.
    """
    if not path.is_file():
        return [], offset
    with path.open("rb") as f:
        f.seek(offset)
        data = f.read()
    whole = data[: data.rfind(b"\n") + 1]
    events = [event for line in whole.splitlines() if (event := _parse(line)) is not None]
    return events, offset + len(whole)


def _parse(line: bytes) -> Event | None:
    try:
        return EVENT.validate_json(line)
    except ValidationError:
        return None
