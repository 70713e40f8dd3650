"""Begin a run for a caller, or go on with one; asked twice for the same, one begins."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path

from tuneloop.core.errors import InvalidRequestError, ToolError
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.locks import exclusive, is_locked
from tuneloop.core.run_lease import LOST, find_holder, machine_of
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.detached import start_command_line, wait_accepted
from tuneloop.tools.runs.request import RunRequest, check_run_name, fresh_name
from tuneloop.tools.runs.spec import command_words, spec_from_options

# Work on a run in the background: the command line, detached; it outlives who asked, and refuses as in a terminal.

LOG = "command.log"
ACCEPT_SECONDS = (
    LOST + 30.0
)  # until a request is taken or refused, a dead machine's lease waited for; else it is on its way
WORKED = ("to go on: ", "report: ", "comparison: ")  # how the command line ends when it was not refused


def resume_detached(run: RunFolder) -> str:
    """Start `tuneloop resume` and wait until it holds the run; why it did not, "" when it did."""
    return launch_detached(run.root / LOG, ("resume", run.id), lambda: is_held_here(run))


def is_held_here(run: RunFolder) -> bool:
    """Whether a process of this machine has the run: its lock, and the lease, which another machine may have had until now."""
    holder = find_holder(run.root)
    return holder is not None and holder.machine == machine_of(run.root)


def launch_detached(log: Path, words: tuple[str, ...], accepted: Callable[[], bool]) -> str:
    """Start `tuneloop WORDS` and wait until it has accepted; its refusal in one line, or "". `log`: a file of a run or batch."""
    begun = log.stat().st_size if log.exists() else 0
    home = {"FT_FILE_PATH": str(log.absolute().parents[2])}  # which need not be that of the environment
    ended = start_command_line(*words, cwd=Path.cwd(), log=log, env=home)
    return refusal_line(log, begun) if wait_accepted(ended, accepted, ACCEPT_SECONDS) else ""


def refusal_line(log: Path, begun: int) -> str:
    """Why the command line refused; "" when it has worked and is over already."""
    lines = log.read_bytes()[begun:].decode(errors="replace").strip().splitlines()
    last = lines[-1] if lines else "the command line ended without a word"
    return "" if last.startswith(WORKED) else last.removeprefix("tuneloop: ")


ASKED = "request.json"


def start_run(home: Home, request: RunRequest) -> RunFolder:
    """A new run, accepted by the command line; asked again for the same, the run there is.

    Raises ToolError with the command line's own refusal, or when the name is taken by a run that was asked otherwise.
    """
    check_run_name(request.run_id)
    run = home.run(request.run_id)
    asked = request.model_dump(mode="json")
    home.runs.mkdir(parents=True, exist_ok=True)
    with exclusive(home.runs / ".start.lock"):
        if run.spec.is_file():
            if not same_request(run.root / ASKED, asked):
                raise ToolError(f"run {run.id!r} exists and was asked otherwise: choose another name, or resume_run")
            return run
        write_json(run.root / ASKED, asked)
        refusal = launch_detached(
            run.root / LOG, ("run", *command_words({"run_id": run.id, **request.options()})), run.spec.is_file
        )
        if refusal:
            forget_refused(run)
            raise ToolError(refusal)
    return run


def start_from_options(settings: Settings, options: Mapping[str, str]) -> RunFolder:
    """A new run with options of `tuneloop run`, by field name. Raises InvalidRequestError with the command line's own refusal.

    Only what a spec can hold may be asked for: options of this machine's owner are not among it.
    """
    given = dict(options)
    check_run_name(given.get("run_id", ""))
    run = settings.home.run(given.pop("run_id", "") or fresh_name(given.get("benchmark", "run").split(",")[0]))
    if run.spec.is_file():
        raise InvalidRequestError(f"run {run.id!r} exists; choose another run_id")
    spec_from_options(given, settings)
    run.root.mkdir(parents=True, exist_ok=True)
    words = ("run", *command_words({"run_id": run.id, **given}))
    if refusal := launch_detached(run.root / LOG, words, run.spec.is_file):
        forget_refused(run)
        raise InvalidRequestError(refusal)
    return run


def resume_run(home: Home, run: RunFolder) -> None:
    """Go on with a run that nobody works on; one that is worked on here is left alone. Raises ToolError.

    Whether another machine works on it, the command line finds out: a fresh lease may be that of a dead one.
    """
    if run.report_json.is_file():
        raise ToolError(f"run {run.id} is finished: get_report has its result")
    with exclusive(home.runs / ".start.lock"):
        refusal = "" if is_locked(run.root / "lock") else resume_detached(run)
        if refusal:
            raise ToolError(refusal)


def same_request(file: Path, asked: object) -> bool:
    """Whether the run was asked for by this very request."""
    return file.is_file() and read_json(file) == asked


def forget_refused(run: RunFolder) -> None:
    """A run that was refused leaves nothing."""
    for name in (ASKED, LOG):
        (run.root / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # somebody else's files
        run.root.rmdir()
