"""What a server may touch: one run, this machine's settings, and the splits whose items and scores it may show."""

from __future__ import annotations

from dataclasses import dataclass, field

from tuneloop.core.benchmark import Split
from tuneloop.core.errors import ToolError
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.tools.workbench import Workbench


@dataclass(frozen=True)
class Scope:
    """Given to `build_server`; the sealed test is in no scope, `finish` reads it without a server."""

    run: RunFolder | None
    settings: Settings
    splits: frozenset[Split] = field(default=frozenset({"validation"}))

    def bench(self) -> Workbench:
        """The run's workbench. Raises ToolError when the server was started without a run."""
        if self.run is None:
            raise ToolError("this server was started without a run: start it with --run ID")
        return Workbench(self.run, self.settings)

    def allow(self, split: str) -> None:
        """Raises ToolError for a split outside the scope."""
        if split not in self.splits:
            raise ToolError(f"split {split!r} is closed; open here: {', '.join(sorted(self.splits))}")
