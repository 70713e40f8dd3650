"""A terminal in which one types while lines appear above: history, editing and completion are readline's."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

try:
    import readline
except ImportError:  # an interpreter without it: lines are typed as the terminal lets one
    readline = None  # type: ignore[assignment]

PROMPT = "> "
KEPT = 1000  # lines of history


class Screen:
    """Prints from any thread; what is being typed stays below."""

    def __init__(self) -> None:
        self.typing = False
        self.looking = threading.Lock()
        self._turn = threading.Lock()

    def ask(self) -> str:
        """One line. Raises EOFError at its end, KeyboardInterrupt on Ctrl-C."""
        self.typing = True
        try:
            return input(PROMPT)
        finally:
            self.typing = False

    def say(self, text: str) -> None:
        """Lines above the one that is typed."""
        with self._turn:
            typed = PROMPT + (readline.get_line_buffer() if readline else "") if self.typing else ""
            click.echo(f"{over(typed)}{text}\n{typed}", nl=False)
            sys.stdout.flush()


def over(typed: str) -> str:
    """Escape sequences that lead to the beginning of what is typed and clear it."""
    if not typed:
        return ""
    up = (len(typed) - 1) // shutil.get_terminal_size().columns
    return f"\x1b[{up}A\r\x1b[J" if up else "\r\x1b[J"


@contextlib.contextmanager
def remembering(history: Path, words: Sequence[str]) -> Iterator[None]:
    """Arrow keys go through what was typed before, in other chats too; Tab completes `words`."""
    if readline is None:
        yield
        return
    with contextlib.suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(KEPT)
    readline.set_completer_delims(" ")
    readline.set_completer(
        lambda begun, place: next(iter([w for w in words if w.startswith(begun.removeprefix("/"))][place:]), None)
    )
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            history.touch(0o600)
            readline.write_history_file(history)
        readline.set_completer(None)
