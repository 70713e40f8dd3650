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

from tuneloop.core.bridge import in_thread
from tuneloop.core.errors import WorldError
from tuneloop.core.event_log import read_events
from tuneloop.core.events import Event
from tuneloop.core.experiment import Journal
from tuneloop.core.files import read_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.run import RunSpec
from tuneloop.core.settings import Settings, load_settings, using
from tuneloop.graph.runs import create_run, drive
from tuneloop.graph.steering.exchange import tell
from tuneloop.tools import benchmarks, datasets, models
from tuneloop.tools.runs.find import named
from tuneloop.tools.runs.journal import load_journal
from tuneloop.tools.runs.messages import put
from tuneloop.tools.runs.naming import fresh_name, is_path

GLANCE = 0.1  # seconds between looks for new events
_guard = threading.Lock()


@dataclass(frozen=True)
class RunResult:
    """How a sitting ended, and what the run has brought so far."""

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
    Raises SetupError for a wrong request, before anything costs; WorldError when the world is broken: the same call with
    the run's name goes on.
    """
    settings = settings or load_settings()
    return sit(opened(what, settings, name), settings, steps)


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
    folder = opened(what, settings, name)
    offset = size(folder)
    with ThreadPoolExecutor(1, "tuneloop run") as pool:
        sitting = pool.submit(copy_context().run, sit, folder, settings, steps)
        try:
            over, found = False, list[Event]()
            while found or not over:
                over = bool(wait((sitting,), GLANCE).done)
                found, offset = read_events(folder.events, offset)
                yield from found
        finally:
            ask_to_pause(folder, sitting.done())
        sitting.result()


async def astream(
    what: RunSpec | str, settings: Settings | None = None, *, name: str = "", steps: int | None = None
) -> AsyncGenerator[Event, None]:
    """As `stream`, without blocking the event loop; who leaves it early closes it (`contextlib.aclosing`)."""
    settings = settings or load_settings()
    folder = await asyncio.to_thread(opened, what, settings, name)
    offset = size(folder)
    sitting = asyncio.ensure_future(in_thread(sit)(folder, settings, steps))
    try:
        over, found = False, list[Event]()
        while found or not over:
            over = bool((await asyncio.wait((sitting,), timeout=GLANCE))[0])
            found, offset = read_events(folder.events, offset)
            for event in found:
                yield event
    finally:
        ask_to_pause(folder, sitting.done())
        await asyncio.wait((sitting,))
    sitting.result()


def send(name: str, command: str, settings: Settings | None = None) -> Answer:
    """Send a command (`limit num_train_epochs<=3`, `status`; `help` lists all) to the run called `name`.

    The process that works on the run answers, or this one where none does. Raises SetupError when there is no such run,
    WorldError when no answer comes within a minute: the run reads the command later.
    """
    settings = settings or load_settings()
    line = tell(named(settings.home, name), settings, command, lambda _: None)
    if line is None:
        raise WorldError(f"run {name} has not answered yet; the command is in its inbox and is read next")
    return Answer(line.text, line.refused)


def size(run: RunFolder) -> int:
    """Bytes of the run's events that there are."""
    return run.events.stat().st_size if run.events.is_file() else 0


def ask_to_pause(run: RunFolder, over: bool) -> None:
    """Of a sitting that nobody follows any more."""
    if not over:
        put(run.inbox, do="pause")


def sit(folder: RunFolder, settings: Settings, steps: int | None) -> RunResult:
    """One sitting; of a finished run none. Raises SetupError when this very process works on the run already."""
    if folder.report_json.is_file():
        return RunResult(folder.id, folder.root, "finished")
    with using(settings):
        outcome = drive(folder, settings, step_n=steps)
    return RunResult(folder.id, folder.root, outcome.state, outcome.reason)


def opened(what: RunSpec | str, settings: Settings, name: str) -> RunFolder:
    """The run that is meant. Raises SetupError."""
    if isinstance(what, str):
        return named(settings.home, what)
    with using(settings), _guard:
        return create_run(located(what), settings, name or unused(what, settings))


def unused(spec: RunSpec, settings: Settings) -> str:
    """Benchmark and time, and a number where several begin in one second."""
    base, number = fresh_name(spec.benchmark), 1
    name = base
    while settings.home.run(name).root.exists():
        number += 1
        name = f"{base}-{number}"
    return name


def located(spec: RunSpec) -> RunSpec:
    """With absolute paths, so that the spec means the same in any working directory."""
    return spec.model_copy(
        update={
            "benchmark": absolute(spec.benchmark, benchmarks.names()),
            "also": tuple(absolute(name, benchmarks.names()) for name in spec.also),
            "base_model": absolute(spec.base_model, models.names()),
            "datasets": tuple(absolute(name, datasets.names()) for name in spec.datasets),
        }
    )


def absolute(name: str, registered: Any) -> str:
    """A path made absolute; other names as they are."""
    return str(Path(name).expanduser().absolute()) if is_path(name, registered) else name
