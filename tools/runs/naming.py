"""Names of runs; and names that a caller over MCP gives: registered ones, hub ids, paths below the folders open to it."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tuneloop.core.errors import ToolError
from tuneloop.core.layout import Home


@dataclass(frozen=True)
class Open:
    """Folders whose content may be named; of the home only models, data sets and what runs brought, no sealed test."""

    home: Home
    roots: tuple[Path, ...] = ()

    def admits(self, path: Path) -> bool:
        """Whether a real path may be named. One that holds the home would bring all of it along."""
        home = self.home.root.resolve()
        of_home = (self.home.models, self.home.datasets, *self.home.runs.glob("*/best"))
        if any(path.is_relative_to(folder.resolve()) for folder in of_home):
            return True
        if path.is_relative_to(home) or home.is_relative_to(path):
            return False
        return any(path.is_relative_to(root.resolve()) for root in self.roots)

    def confined(self, name: str, registered: Collection[str]) -> str:
        """The name as the command line shall get it; a path becomes absolute. Raises ToolError for one that is closed.

        A comma would make two names of it, the second of which nobody looked at.
        """
        if "," in name or name.startswith("-") or not name.isprintable() or not name.strip():
            raise ToolError(f"{name[:80]!r} is no name; right is one registered name, hub id or path, without commas")
        if not is_path(name, registered):
            return name
        path = Path(name).expanduser().resolve()
        if not self.admits(path):
            where = ", ".join(map(str, (*self.roots, self.home.datasets, self.home.models)))
            raise ToolError(
                f"{name!r} is not open to you; right is a path below {where}, a registered name or a hub id"
            )
        return str(path)


def is_path(name: str, registered: Collection[str]) -> bool:
    """Whether the command line takes the name for a path: it looks like one, or is there, and is no entry's name."""
    if name in registered:
        return False
    return name.startswith((".", "/", "~")) or Path(name).expanduser().exists()


def folder_name(text: str) -> str:
    """A thread id as the name of a folder."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:80]


def fresh_name(benchmark: str) -> str:
    """A name for a new run: benchmark and time of day."""
    return f"{folder_name(Path(benchmark).name)}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
