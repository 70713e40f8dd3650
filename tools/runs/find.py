"""The runs there are."""

from __future__ import annotations

import difflib

from tuneloop.core.errors import SetupError
from tuneloop.core.layout import Home, RunFolder


def runs(home: Home) -> list[RunFolder]:
    """All runs, newest first."""
    found = home.runs.glob("[!.]*/run.yaml") if home.runs.is_dir() else []
    return [RunFolder(p.parent) for p in sorted(found, key=lambda p: (p.stat().st_mtime_ns, p), reverse=True)]


def named(home: Home, name: str) -> RunFolder:
    """The run called `name`. Raises SetupError, which says the closest name there is."""
    by_name = {run.id: run for run in runs(home)}
    if name not in by_name:
        close = difflib.get_close_matches(name, by_name, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "see: tuneloop list runs"
        raise SetupError(f"no run {name!r} in {home.runs}: {hint}")
    return by_name[name]
