"""A run's directives and conversation on disk: appended by the process that works on the run, read by any."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from tuneloop.core.directive import Directive, Line
from tuneloop.core.files import append_line, raw_lines

Row = TypeVar("Row", bound=BaseModel)


def read_directives(path: Path) -> list[Directive]:
    """Each directive in its newest state, in the order in which they were given."""
    found: dict[str, Directive] = {}
    for directive in _rows(path, Directive):
        found[directive.id] = directive
    return list(found.values())


def open_directives(path: Path) -> list[Directive]:
    """Those that hold."""
    return [directive for directive in read_directives(path) if directive.state == "open"]


def read_conversation(path: Path) -> list[Line]:
    """Every line, oldest first."""
    return list(_rows(path, Line))


def append_row(path: Path, row: Directive | Line) -> None:
    """Append a line of the conversation, or a directive's new state."""
    append_line(path, row.model_dump_json())


def _rows(path: Path, kind: type[Row]) -> Iterator[Row]:
    """Whole lines only: one that a crash tore was never answered, its message is still in the inbox."""
    if not path.is_file():
        return
    for line in raw_lines(path):
        with contextlib.suppress(ValidationError):
            yield kind.model_validate_json(line)
