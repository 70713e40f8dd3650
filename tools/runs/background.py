"""Work on a run in the background: the command line, detached; it outlives who asked, and refuses as in a terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import is_locked
from tuneloop.sandboxes.detached import ended_first, start_command_line

LOG = "command.log"
ACCEPT_SECONDS = 60.0  # until a request is taken or refused; what takes longer is still on its way
WORKED = ("to go on: ", "report: ")  # how the command line ends when it was not refused


def resume_behind(run: RunFolder) -> str:
    """Start `tuneloop resume` and wait until it holds the run; why it did not, "" when it did."""
    return launched(run, ("resume", run.id), lambda: is_locked(run.lock))


def launched(run: RunFolder, words: tuple[str, ...], accepted: Callable[[], bool]) -> str:
    """Start `tuneloop WORDS` and wait until it has accepted; its refusal in one line, "" when there is none."""
    log = run.root / LOG
    begun = log.stat().st_size if log.exists() else 0
    ended = start_command_line(*words, cwd=Path.cwd(), log=log)
    return last_word(log, begun) if ended_first(ended, accepted, ACCEPT_SECONDS) else ""


def last_word(log: Path, begun: int) -> str:
    """Why the command line refused; "" when it has worked and is over already."""
    lines = log.read_bytes()[begun:].decode(errors="replace").strip().splitlines()
    last = lines[-1] if lines else "the command line ended without a word"
    return "" if last.startswith(WORKED) else last.removeprefix("tuneloop: ")
