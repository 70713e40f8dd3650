"""Messages to a run from any process: one JSON file each in its inbox; answers are read from its conversation."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from tuneloop.core.async_bridge import pause as wait_shortly
from tuneloop.core.commands import find_command
from tuneloop.core.directive import Line, NewRun
from tuneloop.core.directive_log import read_conversation
from tuneloop.core.errors import ToolError
from tuneloop.core.files import read_model, write_json
from tuneloop.core.job import TICKET
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import is_locked
from tuneloop.core.run_lease import LOST, age, is_worked_on
from tuneloop.core.run_spec import Setup
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.jobs import stop_and_wait
from tuneloop.sandboxes.local import is_foreign
from tuneloop.tools.runs.manifest import read_spec
from tuneloop.tools.runs.signature import check_signed

READ_SECONDS = 5.0  # until the process that works on a run has read a message
START_SECONDS = 3.0  # until a process that takes up a run holds its lock
INTERVAL = 0.05


def put(inbox: Path, **message: str) -> Path:
    """Leave a message, e.g. `do="pause"`; its file is gone once it was handled."""
    file = inbox / f"{time.time_ns()}.json"
    write_json(file, message)
    return file


def waiting(inbox: Path) -> list[Path]:
    """Messages not handled yet, oldest first."""
    try:
        names = os.listdir(inbox)  # noqa: PTH208 - asked several times a second while a job runs
    except FileNotFoundError:
        return []
    return sorted(inbox / name for name in names if name[0].isdecimal() and name.endswith(".json"))


def say(run: RunFolder, text: str) -> str:
    """Leave a text for the run; its id."""
    return put(run.inbox, do="say", text=text).stem


def answer(run: RunFolder, message: str) -> Line | None:
    """What the run answered; None: nothing yet."""
    return next((line for line in read_conversation(run.conversation) if line.answers == message), None)


def acknowledgement(run: RunFolder, message: str) -> Line | None:
    """That the run has read it and asks a chat model; None: nothing yet, or it was answered at once."""
    return next((line for line in read_conversation(run.conversation) if line.acknowledges == message), None)


def is_at_work(run: RunFolder) -> bool:
    """Whether a process works on the run, or takes it up this moment."""
    deadline = time.monotonic() + START_SECONDS
    while not is_worked_on(run.root):
        if run.report_json.is_file() or time.monotonic() > deadline:
            return False
        wait_shortly(INTERVAL)
    return True


def request_pause(run: RunFolder) -> bool:
    """Ask the process that works on the run to pause; False when none does.

    A request that comes after its end is taken back: it would stop the next `resume`.
    """
    if not is_at_work(run):
        return False
    file = put(run.inbox, do="pause")
    if not is_worked_on(run.root):
        file.unlink(missing_ok=True)
    return True


def read_message(file: Path) -> dict[str, Any]:
    """One message. Raises DamagedFileError."""
    return read_model(file, dict[str, Any])


def drop_pauses(files: list[Path]) -> bool:
    """Remove requests to pause of a run that stands still, but those that were answered; whether there were any."""
    dropped = False
    for file in files:
        message = read_message(file) if file.is_file() else {}
        if message.get("do") == "pause" and "promised" not in message:
            file.unlink(missing_ok=True)
            dropped = True
    return dropped


def deliver(run: RunFolder, text: str) -> dict[str, Any]:
    """Leave a message for the run; its answer, when it comes soon.

    Raises ToolError when the run is over, or for a command that is none of a run; InvalidRequestError for a run of another home.
    """
    if run.report_json.is_file():
        raise ToolError(f"run {run.id} is finished: nothing can be changed any more; start_run begins another")
    if isinstance(find_command(text), NewRun):
        raise ToolError("a run cannot start another run; right is start_run")
    check_signed(run)
    message = say(run, text)
    file = run.inbox / f"{message}.json"
    if not is_worked_on(run.root):
        note = "nobody works on the run now; it reads this first when it goes on (resume_run)"
        return {"run": run.id, "taken": False, "answer": None, "note": note}
    deadline = time.monotonic() + READ_SECONDS
    while (found := answer(run, message)) is None and time.monotonic() < deadline:
        wait_shortly(INTERVAL)
    if found is not None:
        return {"run": run.id, "taken": True, "answer": found.text, "refused": found.refused, "note": ""}
    if not file.exists():
        note = "a chat model is asked what it means; the answer follows in the run's conversation"
        return {"run": run.id, "taken": True, "answer": None, "note": note}
    note = "not read yet: the run looks at it between two steps of its work; run_status shows its directives"
    return {"run": run.id, "taken": False, "answer": None, "note": note}


# Jobs outlive the process that started them; workers hold their locks like jobs.
JOB_FOLDERS = ("baseline/jobs", "baseline/probe/jobs", "final/jobs", "experiments/*/jobs", "experiments/*/seeds/*/jobs")


def live_jobs(run: RunFolder) -> list[Path]:
    """Folders of the run's jobs that live: they need nobody, `tuneloop resume` takes what they bring."""
    return _locked(run, JOB_FOLDERS)


def _locked(run: RunFolder, places: tuple[str, ...]) -> list[Path]:
    jobs = [job for place in places for job in run.root.glob(f"{place}/*.[0-9]*") if lives(job)]
    return [job for job in jobs if not (job / "exit.json").is_file()]  # one that is over holds its lock a moment longer


def lives(job: Path) -> bool:
    """Whether a job's supervisor holds its lock or gave a sign from another machine, or a scheduler may still have it."""
    lock = job / "lock"
    return is_locked(lock) or (job / TICKET).is_file() or (is_foreign(lock) and age(lock) < LOST)


def stop_jobs(run: RunFolder, settings: Settings) -> list[str]:
    """End what a run still has that nobody works on: its jobs, whose names are returned, and its workers.

    A training keeps its checkpoints and is taken up by `tuneloop resume`. Raises InfrastructureError for one that does not end.
    """
    jobs, workers = live_jobs(run), _locked(run, ("workers",))
    if jobs or workers:
        from tuneloop.sandboxes.choose import open_sandbox  # heavy, and few messages need one
        from tuneloop.tools.jobs.node_files import open_nodes

        spec = read_spec(run)
        kind = read_model(run.setup, Setup).sandbox if run.setup.is_file() else spec.sandbox
        sandbox = open_nodes(spec.executor, open_sandbox(kind), settings)
        for folder in (*jobs, *workers):
            stop_and_wait(sandbox, folder)
    return [folder.name for folder in jobs]


def stop(run: RunFolder, settings: Settings) -> dict[str, Any]:
    """Ask it to pause, or end the jobs that outlived its process. Raises ToolError when there is nothing of both."""
    if not request_pause(run):
        ended = stop_jobs(run, settings)
        if not ended:
            raise ToolError(f"nobody works on run {run.id} now, and it has no job: nothing to stop")
        note = f"its process was gone; ended: {', '.join(ended)}. Everything is kept, resume_run goes on"
        return {"run": run.id, "asked": False, "note": note}
    note = (
        "asked to pause; its job is ended and everything is kept. run_status says when it is paused, resume_run goes on"
    )
    return {"run": run.id, "asked": True, "note": note}
