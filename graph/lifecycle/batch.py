"""Batches of runs: check and write one, drive it to its end, compare what it brought."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.settings import Settings, load_settings
from tuneloop.graph.lifecycle.create_run import check_spec
from tuneloop.sandboxes.local import gpu_memory
from tuneloop.tools.batch.comparison import Cell, compare_runs, write_comparison
from tuneloop.tools.batch.devices import Devices
from tuneloop.tools.batch.run import Batch, BatchFolder, TaskStatus, create_batch, drive_batch, open_batch, retry_failed
from tuneloop.tools.batch.tasks import Document, read_batch, read_document
from tuneloop.tools.runs.request import folder_name, fresh_name

LONGEST_STEM = 40  # characters of a file's name in that of its batch
Show = Callable[[Sequence[TaskStatus]], None]
Tasks = Path | Mapping[str, Any] | Sequence[Mapping[str, Any]]


def run_batch(
    tasks: Tasks,
    scenarios: Path | Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    *,
    name: str = "",
    parallel: int | None = None,
) -> list[Cell]:
    """One run for each task and scenario, side by side; returns their comparison when all have ended.

    The same call with the same `name` goes on with a batch that was interrupted; its runs outlive this process.

    Args:
        tasks: a file of tasks, or what it would hold: `[{"model": …, "benchmark": …}]`.
        scenarios: a file of scenarios, or what it would hold.
        settings: by default those of the environment and `.env`.
        name: of the batch; empty: the file's name and the time.
        parallel: runs side by side; None: one for each GPU, else 1.

    Raises:
        InvalidRequestError: a task is wrong, before anything starts; or another process drives the batch.
    """
    settings = settings or load_settings()
    folder = BatchFolder(settings.home, folder_name(name))
    if not (name and folder.batch.is_file()):
        folder = make_batch(_document(tasks, "tasks"), _document(scenarios, "scenarios"), settings, name, parallel)
    return finish_batch(folder, settings, lambda _: None)[1]


def make_batch(
    tasks: Document | None,
    scenarios: Document | None,
    settings: Settings,
    name: str = "",
    parallel: int | None = None,
    given: Mapping[str, Any] | None = None,
) -> BatchFolder:
    """Check every task and write the batch; `given`: fields of tasks that do not name them. Raises InvalidRequestError."""
    tasks = tasks or Document(Path("tasks"), None, {})
    folder = BatchFolder(settings.home, folder_name(name or fresh_name(tasks.path.stem[:LONGEST_STEM])))
    found = read_batch(folder.id, tasks, scenarios, settings, lambda spec: check_spec(spec, settings), given or {})
    if taken := [task.run_id for task in found if settings.home.run(task.run_id).spec.exists()]:
        raise InvalidRequestError(f"run {taken[0]!r} exists and is not of batch {folder.id}: right is another name")
    gpus = gpu_memory()
    create_batch(folder, Batch(parallel=parallel or max(1, len(gpus)), tasks=found), Devices(gpus))
    return folder


def finish_batch(
    folder: BatchFolder, settings: Settings, show: Show, *, retry: bool = False
) -> tuple[list[TaskStatus], list[Cell]]:
    """Drive a batch until all its runs have ended or it is stopped, then write the comparison; `retry`: what failed, too."""
    with open_batch(folder, Devices(gpu_memory()), settings) as driver:
        if retry:
            retry_failed(driver)
        found = drive_batch(driver, show)
    cells = compare_runs(settings.home, found)
    write_comparison(folder.root, cells)
    return found, cells


def _document(given: Tasks | Mapping[str, Any] | None, name: str) -> Document | None:
    if given is None:
        return None
    return read_document(given) if isinstance(given, Path) else Document(Path(name), given, {})
