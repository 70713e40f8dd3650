"""What commands print where: tables that a pipe never cuts, progress as a bar in a terminal and as lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.segment import Segment

from tuneloop.core.formatting import plain_lines, printable

PIPED_WIDTH = 10_000  # columns where no terminal sets them: every cell has room
CELL = 200  # characters of a text in a terminal's table
PROGRESS_EVERY = 15.0  # seconds between two lines of one stage


def table_console() -> Console:
    """Standard output; where it is no terminal, lines are as long as their content."""
    if sys.stdout.isatty():
        return PlainConsole()
    return PlainConsole(file=cast(IO[str], Stripped(sys.stdout)), width=PIPED_WIDTH)


class PlainConsole(Console):
    """Colours and cursor are its own: control characters in the texts that it is given do not reach the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does."""
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=plain_lines(part.text))


class Stripped:
    """A stream without the blanks with which tables fill their lines."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write whole lines; rich hands over a table at once."""
        return self.stream.write("\n".join(line.rstrip() for line in text.split("\n")))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def cell_text(text: str, limit: int = CELL) -> str:
    """One printable line for a table: at most `limit` characters in a terminal, all of them elsewhere."""
    return printable(text, limit if sys.stdout.isatty() else PIPED_WIDTH)


def is_interactive() -> bool:
    """Whether this terminal is interactive and can ask its user."""
    return sys.stdin.isatty() and sys.stderr.isatty()


@contextmanager
def progress_bar(name: str) -> Iterator[Callable[[str, int, int], None]]:
    """Progress on stderr: a bar in a terminal; else a line for each new stage, every 15 s, and at the end of a stage."""
    console = PlainConsole(stderr=True)
    if not console.is_terminal:
        yield ProgressLines(name)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(name, total=None)
        yield lambda note, done, total: progress.update(task, description=note, completed=done, total=total or None)


class ProgressLines:
    """Progress as lines: `tiny: wordproblems: 40/200`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.said: dict[str, float] = {}
        self.over: set[str] = set()

    def __call__(self, note: str, done: int, total: int) -> None:
        """Print it when it is new, over, or the last line is old enough."""
        now, ended, last = time.monotonic(), bool(total) and done >= total, self.said.get(note)
        said = note in self.over if ended else last is not None and now - last < PROGRESS_EVERY
        if said:
            return
        self.said[note] = now
        (self.over.add if ended else self.over.discard)(note)
        where = note if note.startswith(self.name) else f"{self.name}: {note}"
        click.echo(printable(f"{where}: {done}/{total}" if total else where), err=True)
