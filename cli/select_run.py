"""Which run a command means: the one that is named, or the newest that fits."""

from __future__ import annotations

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.layout import Home, RunFolder
from tuneloop.tools.runs.manifest import all_runs, find_run, read_spec


def is_finished(run: RunFolder) -> bool:
    """Its report is whole."""
    return run.report_json.is_file()


def select_run(home: Home, name: str | None) -> RunFolder:
    """The run called `name`, else the newest. Raises InvalidRequestError when there is none, or another version made it."""
    found = all_runs(home) if name is None else [find_run(home, name)]
    if not found:
        raise InvalidRequestError(f"no run in {home.runs} yet; start one with: tuneloop run")
    read_spec(found[0])
    return found[0]


def select_unfinished_run(home: Home, name: str | None) -> RunFolder:
    """As `select_run`, among the runs without a report. Raises InvalidRequestError when there is none."""
    if name is not None:
        return select_run(home, name)
    for run in all_runs(home):
        if not is_finished(run):
            return run
    raise InvalidRequestError(f"no unfinished run in {home.runs}; start one with: tuneloop run")
