"""Start the command line on a run, detached: it outlives who asked for it, and refuses as it would in a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from tuneloop.core.errors import ToolError
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.locks import exclusive, is_locked
from tuneloop.sandboxes.detached import ended_first, start_command_line
from tuneloop.tools.runs.request import Request

ASKED, LOG = "request.json", "command.log"
ACCEPT_SECONDS = 60.0  # until a request is taken or refused; what takes longer is still on its way
WORKED = ("to go on: ", "report: ")  # how the command line ends when it was not refused


def start(home: Home, request: Request) -> RunFolder:
    """A new run, accepted by the command line; asked again for the same, the run there is.

    Raises ToolError with the command line's own refusal, or when the name is taken by a run that was asked otherwise.
    """
    run = home.run(request.run_id)
    asked = request.model_dump(mode="json")
    home.runs.mkdir(parents=True, exist_ok=True)
    with exclusive(home.runs / ".start.lock"):
        if run.spec.is_file():
            if not same(run.root / ASKED, asked):
                raise ToolError(f"run {run.id!r} exists and was asked otherwise: choose another name, or resume_run")
            return run
        write_json(run.root / ASKED, asked)
        refusal = launched(run, ("run", *request.options()), run.spec.is_file)
        if refusal:
            forget(run)
            raise ToolError(refusal)
    return run


def resume(home: Home, run: RunFolder) -> None:
    """Go on with a run that nobody works on; one that is worked on is left alone. Raises ToolError."""
    if run.report_json.is_file():
        raise ToolError(f"run {run.id} is finished: get_report has its result")
    with exclusive(home.runs / ".start.lock"):
        if not is_locked(run.lock):
            refusal = launched(run, ("resume", run.id), lambda: is_locked(run.lock))
            if refusal:
                raise ToolError(refusal)


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


def same(file: Path, asked: object) -> bool:
    """Whether the run was asked for by this very request."""
    return file.is_file() and read_json(file) == asked


def forget(run: RunFolder) -> None:
    """A run that was refused leaves nothing."""
    for name in (ASKED, LOG):
        (run.root / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # somebody else's files
        run.root.rmdir()
