"""Which run a command means: the one that is named, or the newest that fits."""

from __future__ import annotations

from tuneloop.core.errors import SetupError
from tuneloop.core.layout import Home, RunFolder
from tuneloop.tools.runs.find import named, runs
from tuneloop.tools.runs.manifest import read_spec


def finished(run: RunFolder) -> bool:
    """Its report is whole."""
    return run.report_json.is_file()


def pick(home: Home, name: str | None) -> RunFolder:
    """The run called `name`, else the newest. Raises SetupError when there is none, or another version made it."""
    found = runs(home) if name is None else [named(home, name)]
    if not found:
        raise SetupError(f"no run in {home.runs} yet; start one with: tuneloop run")
    read_spec(found[0])
    return found[0]


def pick_unfinished(home: Home, name: str | None) -> RunFolder:
    """As `pick`, among the runs without a report. Raises SetupError when there is none."""
    if name is not None:
        return pick(home, name)
    for run in runs(home):
        if not finished(run):
            return run
    raise SetupError(f"no unfinished run in {home.runs}; start one with: tuneloop run")
