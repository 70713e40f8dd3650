"""Which run a command means: the one that is named, or the newest that fits."""

from __future__ import annotations

import difflib

from tuneloop.core.errors import SetupError
from tuneloop.core.layout import Home, RunFolder


def runs(home: Home) -> list[RunFolder]:
    """All runs, newest first."""
    found = home.runs.glob("[!.]*/run.yaml") if home.runs.is_dir() else []
    return [RunFolder(p.parent) for p in sorted(found, key=lambda p: (p.stat().st_mtime_ns, p), reverse=True)]


def finished(run: RunFolder) -> bool:
    """Its report is whole."""
    return run.report_json.is_file()


def pick(home: Home, name: str | None) -> RunFolder:
    """The run called `name`, else the newest. Raises SetupError when there is none."""
    found = runs(home)
    if name is None:
        if not found:
            raise SetupError(f"no run in {home.runs} yet; start one with: tuneloop run")
        return found[0]
    by_name = {run.id: run for run in found}
    if name not in by_name:
        close = difflib.get_close_matches(name, by_name, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "see: tuneloop list runs"
        raise SetupError(f"no run {name!r} in {home.runs}: {hint}")
    return by_name[name]


def pick_unfinished(home: Home, name: str | None) -> RunFolder:
    """As `pick`, among the runs without a report. Raises SetupError when there is none."""
    if name is not None:
        return pick(home, name)
    for run in runs(home):
        if not finished(run):
            return run
    raise SetupError(f"no unfinished run in {home.runs}; start one with: tuneloop run")
