"""Batches for a caller who does not wait: start, resume and stop one, and what it has come to; its runs outlive who asked."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tuneloop.core.async_bridge import pause
from tuneloop.core.errors import InvalidRequestError, ToolError
from tuneloop.core.files import json_text, write_atomic
from tuneloop.core.layout import Home
from tuneloop.core.locks import exclusive, is_locked
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.tools.batch.comparison import compare_runs
from tuneloop.tools.batch.devices import Devices
from tuneloop.tools.batch.run import BatchFolder, batch_status, is_over, open_batch
from tuneloop.tools.batch.tasks import LARGEST, BatchTask, Document, read_batch
from tuneloop.tools.runs.request import OpenFolders, check_names, check_open
from tuneloop.tools.runs.start import LOG, launch_detached

ASKED = "tasks.json"
STOP_SECONDS = 10.0  # that a caller waits for the process that drives a batch


def start_batch(
    settings: Settings, folders: OpenFolders, name: str, asked: Mapping[str, Any], parallel: int | None = None
) -> BatchFolder:
    """A new batch, accepted by the command line; asked again for the same, the batch there is.

    Args:
        settings: what tasks leave open.
        folders: what paths of its tasks may lead to.
        name: of the batch.
        asked: what a file of tasks holds: `tasks`, `defaults`, `scenarios`.
        parallel: runs side by side; None: one for each GPU, else 1.

    Raises:
        ToolError: a path is not open, or the command line's own refusal; nothing is left.
        InvalidRequestError: the first field that is wrong.
    """
    text = asked_text(asked)
    found = asked_tasks(settings, folders, name, asked)
    folder = BatchFolder(settings.home, name)
    with exclusive(_start_lock(settings.home)):
        if folder.batch.is_file():
            there = folder.read()
            if there.tasks != found or parallel not in (None, there.parallel):
                raise ToolError(f"batch {name!r} exists and was asked otherwise: choose another name, or resume_batch")
            return folder
        write_atomic(folder.root / ASKED, text)
        beside = () if parallel is None else (f"--parallel={parallel}",)
        words = ("batch", "start", f"--name={name}", *beside, str((folder.root / ASKED).absolute()))
        if refusal := launch_detached(folder.root / LOG, words, lambda: is_locked(folder.lock)):
            forget_refused(folder)
            raise ToolError(refusal)
    return folder


def asked_text(asked: Mapping[str, Any]) -> str:
    """As a file of tasks has it. Raises ToolError where no file could hold it."""
    try:
        text = json_text(asked)
    except (ValueError, RecursionError) as e:
        raise ToolError("tasks are no JSON: right are finite numbers, and objects that are not nested deeply") from e
    if len(text) > LARGEST:
        raise ToolError(f"tasks of more than {LARGEST >> 20} MiB; right are fewer, in several batches")
    return text


def asked_tasks(settings: Settings, folders: OpenFolders, name: str, asked: Mapping[str, Any]) -> tuple[BatchTask, ...]:
    """The tasks of a caller who may not name everything. Raises ToolError and InvalidRequestError."""

    def check(spec: RunSpec) -> None:
        check_open(spec, folders, settings)
        check_names(spec, settings)

    found = read_batch(name, Document(Path("request"), asked, {}), None, settings, check)
    if any(task.port for task in found):
        raise ToolError("port: endpoints are named by this machine's settings alone; leave it out")
    return found


def resume_batch(folder: BatchFolder, settings: Settings) -> None:
    """Go on with a batch that no process drives; runs that had failed are tried again. Raises ToolError."""
    if all(status.state == "finished" for status in batch_status(folder, settings)):
        raise ToolError(f"batch {folder.id} is over, all its runs are finished: batch_status has their comparison")
    with exclusive(_start_lock(folder.home)):
        if is_locked(folder.lock):
            return
        if refusal := launch_detached(
            folder.root / LOG, ("batch", "resume", folder.id), lambda: is_locked(folder.lock)
        ):
            raise ToolError(refusal)


def stop_batch(folder: BatchFolder, settings: Settings) -> bool:
    """Start no further run of a batch and ask those at work to pause; whether that is done, or still under way.

    Raises InvalidRequestError when neither the batch nor one of its runs is at work.
    """
    if is_locked(folder.lock):
        folder.stop.touch()
        deadline = time.monotonic() + STOP_SECONDS
        while is_locked(folder.lock) and time.monotonic() < deadline:
            pause(0.1)
        return not is_locked(folder.lock)
    with open_batch(folder, Devices({}), settings) as driver:
        if all(driver.status(task).state != "running" for task in driver.batch.tasks):
            raise InvalidRequestError(f"nobody works on batch {folder.id}, nor on a run of it: nothing to stop")
        driver.stop()
    return True


def batch_facts(folder: BatchFolder, settings: Settings, count: int, offset: int = 0) -> dict[str, Any]:
    """State, runs by state, so many runs and rows of the comparison from `offset` on.

    `state`: running, stopped or over. Raises InvalidRequestError when there is no such batch.
    """
    found = batch_status(folder, settings)
    cells = compare_runs(folder.home, found)
    some = slice(offset, offset + count)
    at_work = "running" if is_locked(folder.lock) else "over" if is_over(found) else "stopped"
    states = [status.state for status in found]
    return {
        "batch": folder.id,
        "state": at_work,
        "folder": str(folder.root),
        "runs_by_state": {state: states.count(state) for state in dict.fromkeys(states)},
        "runs": [
            {"run": one.task.run_id, "state": one.state, "reason": one.reason, "at": one.place} for one in found[some]
        ],
        "runs_in_all": len(found),
        "comparison": [asdict(cell) for cell in cells[some]],
        "rows_in_all": len(cells),
    }


def forget_refused(folder: BatchFolder) -> None:
    """A batch that was refused leaves nothing."""
    for name in (ASKED, LOG):
        (folder.root / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # somebody else's files
        folder.root.rmdir()


def _start_lock(home: Home) -> Path:
    return home.root / "batches" / ".start.lock"
