"""Runs from Python: begin one or go on with it, wait for it or see its events; several at a time, in notebooks too."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tuneloop.core.async_bridge import in_thread
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.event_log import read_events
from tuneloop.core.events import Event
from tuneloop.core.experiment import Journal
from tuneloop.core.files import read_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings, load_settings
from tuneloop.graph.lifecycle.drive import create_run, drive
from tuneloop.graph.steering.exchange import tell
from tuneloop.tools.runs.journal import load_journal
from tuneloop.tools.runs.manifest import find_run
from tuneloop.tools.runs.messages import put
from tuneloop.tools.runs.spec import build_spec

GLANCE = 0.1  # seconds between looks for new events
_guard = threading.Lock()


@dataclass(frozen=True)
class RunResult:
    """How a session ended, and what the run has brought so far."""

    id: str
    folder: Path
    state: Literal["finished", "paused"]
    reason: str = ""

    @property
    def best(self) -> Path | None:
        """The best model's folder, which loads with transformers; None: nothing was better, or the run is not finished."""
        best = RunFolder(self.folder).best
        return best if best.is_dir() else None

    @property
    def report(self) -> dict[str, Any] | None:
        """`report.json`, its keys are in docs/report.md; None until the run is finished."""
        file = RunFolder(self.folder).report_json
        return dict(read_json(file)) if file.is_file() else None

    @property
    def journal(self) -> Journal:
        """The experiments that are over."""
        return load_journal(RunFolder(self.folder))


@dataclass(frozen=True)
class Answer:
    """What a run answered; `refused`: nothing was changed."""

    text: str
    refused: bool


def run(
    what: RunSpec | str, settings: Settings | None = None, *, name: str = "", steps: int | None = None
) -> RunResult:
    """Begin a run, or with the name of one go on with it; returns when it is finished or paused.

    `settings`: by default those of the environment and `.env`. `name`: of a new run; `steps`: pause after so many nodes.
    Raises InvalidRequestError for a wrong request, before anything costs; InfrastructureError when disk, engine or
    provider failed: the same call with the run's name goes on.
    """
    settings = settings or load_settings()
    return drive_once(find_or_create_run(what, settings, name), settings, steps)


async def arun(
    what: RunSpec | str, settings: Settings | None = None, *, name: str = "", steps: int | None = None
) -> RunResult:
    """As `run`, without blocking the event loop. Cancelled, the run is paused."""
    return await in_thread(run)(what, settings, name=name, steps=steps)


def stream(
    what: RunSpec | str, settings: Settings | None = None, *, name: str = "", steps: int | None = None
) -> Iterator[Event]:
    """As `run`, giving the run's events while they happen. Who leaves the loop early pauses the run."""
    settings = settings or load_settings()
    folder = find_or_create_run(what, settings, name)
    offset = event_log_size(folder)
    with ThreadPoolExecutor(1, "tuneloop run") as pool:
        session = pool.submit(copy_context().run, drive_once, folder, settings, steps)
        try:
            over, found = False, list[Event]()
            while found or not over:
                over = bool(wait((session,), GLANCE).done)
                found, offset = read_events(folder.events, offset)
                yield from found
        finally:
            ask_to_pause(folder, session.done())
        session.result()


async def astream(
    what: RunSpec | str, settings: Settings | None = None, *, name: str = "", steps: int | None = None
) -> AsyncGenerator[Event, None]:
    """As `stream`, without blocking the event loop; close it when leaving early (`contextlib.aclosing`)."""
    settings = settings or load_settings()
    folder = await asyncio.to_thread(find_or_create_run, what, settings, name)
    offset = event_log_size(folder)
    session = asyncio.ensure_future(in_thread(drive_once)(folder, settings, steps))
    try:
        over, found = False, list[Event]()
        while found or not over:
            over = bool((await asyncio.wait((session,), timeout=GLANCE))[0])
            found, offset = read_events(folder.events, offset)
            for event in found:
                yield event
    finally:
        ask_to_pause(folder, session.done())
        await asyncio.wait((session,))
    session.result()


def send(name: str, command: str, settings: Settings | None = None) -> Answer:
    """Send a command (`limit num_train_epochs<=3`, `status`; `help` lists all) to the run called `name`.

    The process that works on the run answers, or this one where none does. Raises InvalidRequestError when there is no such run,
    InfrastructureError when no answer comes within a minute: the run reads the command later.
    """
    settings = settings or load_settings()
    line = tell(find_run(settings.home, name), settings, command, lambda _: None)
    if line is None:
        raise InfrastructureError(f"run {name} has not answered yet; the command is in its inbox and is read next")
    return Answer(line.text, line.refused)


def event_log_size(run: RunFolder) -> int:
    """Size of the run's event log in bytes."""
    return run.events.stat().st_size if run.events.is_file() else 0


def ask_to_pause(run: RunFolder, over: bool) -> None:
    """Of a session that nobody follows any more."""
    if not over:
        put(run.inbox, do="pause")


def drive_once(folder: RunFolder, settings: Settings, steps: int | None) -> RunResult:
    """One session; of a finished run none. Raises InvalidRequestError when this very process works on the run already."""
    if folder.report_json.is_file():
        return RunResult(folder.id, folder.root, "finished")
    outcome = drive(folder, settings, step_n=steps)
    return RunResult(folder.id, folder.root, outcome.state, outcome.reason)


def find_or_create_run(what: RunSpec | str, settings: Settings, name: str) -> RunFolder:
    """The run that is meant. Raises InvalidRequestError."""
    if isinstance(what, str):
        return find_run(settings.home, what)
    with _guard:
        return create_run(build_spec({}, settings, what), settings, name)
