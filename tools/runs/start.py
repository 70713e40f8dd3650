"""Begin a run for a caller, or go on with one; asked twice for the same, one begins."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from tuneloop.core.errors import SetupError, ToolError
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.locks import exclusive, is_locked
from tuneloop.tools.runs.background import LOG, launched, resume_behind
from tuneloop.tools.runs.naming import fresh_name
from tuneloop.tools.runs.request import Request

ASKED = "request.json"
OPTION_NAMES = {"datasets": "dataset", "guards": "guard"}  # field of RunSpec → option, where they differ


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


def start_from_options(home: Home, options: Mapping[str, str]) -> RunFolder:
    """A new run with options of `tuneloop run`, by field name. Raises SetupError with the command line's own refusal."""
    words = {OPTION_NAMES.get(name, name).replace("_", "-"): value for name, value in options.items()}
    run = home.run(words.pop("run-id", "") or fresh_name(words.get("benchmark", "run").split(",")[0]))
    if run.spec.is_file():
        raise SetupError(f"run {run.id!r} exists; choose another run_id")
    run.root.mkdir(parents=True, exist_ok=True)
    command = ("run", f"--run-id={run.id}", *(f"--{name}={value}" for name, value in words.items()))
    if refusal := launched(run, command, run.spec.is_file):
        forget(run)
        raise SetupError(refusal)
    return run


def resume(home: Home, run: RunFolder) -> None:
    """Go on with a run that nobody works on; one that is worked on is left alone. Raises ToolError."""
    if run.report_json.is_file():
        raise ToolError(f"run {run.id} is finished: get_report has its result")
    with exclusive(home.runs / ".start.lock"):
        refusal = "" if is_locked(run.lock) else resume_behind(run)
        if refusal:
            raise ToolError(refusal)


def same(file: Path, asked: object) -> bool:
    """Whether the run was asked for by this very request."""
    return file.is_file() and read_json(file) == asked


def forget(run: RunFolder) -> None:
    """A run that was refused leaves nothing."""
    for name in (ASKED, LOG):
        (run.root / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # somebody else's files
        run.root.rmdir()
