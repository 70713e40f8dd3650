"""What a server may touch: one run, this machine's settings, and the splits whose items and scores it may show."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tuneloop.core.catalog import Split
from tuneloop.core.errors import ToolError
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.settings import Settings

if TYPE_CHECKING:  # sandboxes, engines and benchmarks come with it: questions about parameters need none of them
    from tuneloop.tools.jobs.run_tools import RunTools


@dataclass(frozen=True)
class Scope:
    """Given to `build_server`; the sealed test is in no scope, `finish` reads it without a server.

    `follow`: a server that was started before any run serves the newest one. `roots`: folders below which benchmarks,
    models and data may lie that the owner names; only `runs` and the owner's `evaluation` look at them. `owner`: who asks
    owns this machine, and may measure any model; never an agent of a run.
    """

    run: RunFolder | None
    settings: Settings
    splits: frozenset[Split] = field(default=frozenset({"validation"}))
    follow: bool = False
    roots: tuple[Path, ...] = ()
    owner: bool = False

    @property
    def newest(self) -> RunFolder | None:
        """The run; where none was named and the server follows, the newest there is at this moment."""
        return self.run or (newest_run(self.settings.home) if self.follow else None)

    def run_tools(self) -> RunTools:
        """The run's tools. Raises ToolError when the server was started without a run."""
        run = self.newest
        if run is None:
            raise ToolError("this server was started without a run: start it with --run ID")
        from tuneloop.tools.jobs.run_tools import RunTools

        return RunTools(run, self.settings)

    def allow(self, split: str) -> None:
        """Raises ToolError for a split outside the scope."""
        if split not in self.splits:
            raise ToolError(f"split {split!r} is closed; open here: {', '.join(sorted(self.splits))}")


def newest_run(home: Home) -> RunFolder | None:
    """The run that was begun last."""
    runs = sorted(home.runs.glob("*/run.yaml"), key=lambda p: p.stat().st_mtime)
    return RunFolder(runs[-1].parent) if runs else None
