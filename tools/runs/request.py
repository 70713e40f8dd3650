"""What a caller over MCP asks of a new run, and the options of the command line that say the same."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tuneloop.core.errors import ToolError
from tuneloop.core.layout import Home
from tuneloop.core.run_spec import ApproveAt, Guard, parse_seconds
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.hub import datasets, models

# Names of runs; and names that a caller over MCP gives: registered ones, hub ids, paths below the folders open to it.


@dataclass(frozen=True)
class OpenFolders:
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


class RunRequest(BaseModel):
    """Fields as options of `tuneloop run`; None, "" and () leave the choice to the settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    benchmark: str
    also: tuple[str, ...] = ()
    benchmark_description: str = ""
    base_model: str = ""
    datasets: tuple[str, ...] = ()
    upper_data_size_limit: int | None = None
    drop_overlaps: bool = False
    loop_n: int | None = None
    timeout: str = ""
    max_tokens: int | None = None
    max_cost: float | None = None
    max_gpu_hours: float | None = None
    approve: ApproveAt = "never"
    guards: tuple[str, ...] = ()
    seeds: int | None = None
    seed: int | None = None

    def checked(self, given: OpenFolders) -> RunRequest:
        """With paths made absolute. Raises ToolError when one is not open, or when nothing would end the run."""
        if self.limit is None and self.loop_n is None:
            raise ToolError("nothing would end this run; right is experiments, e.g. 3, or timeout, e.g. 2h, or both")
        return self.model_copy(
            update={
                "benchmark": given.confined(self.benchmark, resolve.registered_names()),
                "also": tuple(given.confined(name, resolve.registered_names()) for name in self.also),
                "base_model": given.confined(self.base_model, models.registered_models()) if self.base_model else "",
                "datasets": tuple(given.confined(name, datasets.registered_datasets()) for name in self.datasets),
                "guards": tuple(check_guard(text, given) for text in self.guards),
            }
        )

    @property
    def limit(self) -> float | None:
        """Seconds that the run may take. Raises ToolError for what is no time."""
        try:
            return parse_seconds(self.timeout)  # type: ignore[return-value]  # a validator takes anything and says object
        except ValueError as e:
            raise ToolError(f"timeout: {e}") from e

    def options(self) -> Iterator[str]:
        """Words for `tuneloop run`; `--name=value`, so that no value is taken for an option."""
        told = self.model_dump(exclude={"also", "datasets", "guards", "drop_overlaps", "benchmark"})
        yield "--benchmark=" + ",".join((self.benchmark, *self.also))
        for name, value in told.items():
            if value not in (None, "", "never"):
                yield f"--{name.replace('_', '-')}={value}"
        yield from (f"--dataset={name}" for name in self.datasets)
        yield from (f"--max-regression={text}" for text in self.guards)
        if self.drop_overlaps:
            yield "--drop-overlaps"


def check_guard(text: str, given: OpenFolders) -> str:
    """`mmlu:-2`, its benchmark looked at. Raises ToolError."""
    try:
        found = Guard.model_validate(text)
    except ValueError as e:
        raise ToolError(f"guard {text!r}: right is BENCHMARK:-POINTS, e.g. mmlu:-2") from e
    return str(found.model_copy(update={"benchmark": given.confined(found.benchmark, resolve.registered_names())}))
