"""What is asked of a new run: its names are looked at, and those of a caller over MCP confined to folders open to it."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InvalidRequestError, ToolError
from tuneloop.core.layout import Home
from tuneloop.core.run_spec import AUTO, ApproveAt, OnStop, RunSpec
from tuneloop.core.setting_values import is_storage_url
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.benchmark_items.of_run import declared_benchmarks
from tuneloop.tools.hub import datasets, models
from tuneloop.tools.runs.spec import build_spec, is_path, locate, split_names

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
        if is_storage_url(name):  # it is read with the owner's credentials
            raise ToolError(f"{name!r} is not open to you; right is a path, a registered name or a hub id")
        if not is_path(name, registered):
            return name
        path = Path(name).expanduser().resolve()
        if not self.admits(path):
            where = ", ".join(map(str, (*self.roots, self.home.datasets, self.home.models)))
            raise ToolError(
                f"{name!r} is not open to you; right is a path below {where}, a registered name or a hub id"
            )
        return str(path)


def check_open(spec: RunSpec, given: OpenFolders, settings: Settings) -> None:
    """Raises ToolError where a spec names a path that is closed; data sets that the settings name are the owner's choice."""
    for name in spec.measured:
        given.confined(name, resolve.registered_names())
    given.confined(spec.base_model, [AUTO, *models.registered_models()])
    registered = datasets.registered_datasets()
    named = (datasets.checkout_file(name, settings) for name in split_names(settings.dataset))  # as the spec names them
    own = {locate(name, registered) for name in named}
    for name in spec.datasets:
        if name not in own:
            given.confined(name, registered)


def check_names(spec: RunSpec, settings: Settings) -> list[Benchmark]:
    """Its benchmarks as they are declared, the first decides. Raises InvalidRequestError for a name that nobody knows."""
    declared = declared_benchmarks(spec, settings)
    if spec.base_model != AUTO:
        models.check_model(spec.base_model)
    for dataset in spec.datasets:
        datasets.check_dataset(dataset)
    return declared


def folder_name(text: str) -> str:
    """A thread id as the name of a folder."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:80]


def check_run_name(name: str) -> None:
    """Raises InvalidRequestError for a name that no folder of a run has."""
    if folder_name(name) != name:
        raise InvalidRequestError(
            f"run name {name[:100]!r}: right are up to 80 letters, digits, dots, `_` and `-`, as in {folder_name(name) or 'my-run'}"
        )


def free_name(home: Home, name: str) -> str:
    """A run's name that is not taken."""
    names = (name, *(f"{name}-{number}" for number in range(2, 1 << 16)))
    return next(n for n in names if not home.run(n).root.exists())


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
    refuse_overlaps: bool = False
    loop_n: int | None = None
    patience: int | None = None
    parallel: int | None = None
    timeout: str = ""
    max_tokens: int | None = None
    max_cost: float | None = None
    max_gpu_hours: float | None = None
    approve: ApproveAt = "never"
    on_stop: OnStop | None = None
    guards: tuple[str, ...] = ()
    seeds: int | None = None
    seed: int | None = None
    validation_share: float | None = None

    def checked(self, given: OpenFolders, settings: Settings) -> RunRequest:
        """With paths made absolute.

        Raises:
            ToolError: a path is not open, or nothing would end the run.
            InvalidRequestError: an option has no meaning.
        """
        asked = self.model_copy(
            update={
                "benchmark": given.confined(self.benchmark, resolve.registered_names()),
                "also": tuple(given.confined(name, resolve.registered_names()) for name in self.also),
                "base_model": given.confined(self.base_model, [AUTO, *models.registered_models()])
                if self.base_model
                else "",
                "datasets": tuple(given.confined(name, datasets.registered_datasets()) for name in self.datasets),
                "guards": tuple(confined_guard(text, given) for text in self.guards),
            }
        )
        spec = build_spec(asked.options(), settings)
        if spec.timeout is None and spec.loop_n is None:
            raise ToolError("nothing would end this run; right is experiments, e.g. 3, or timeout, e.g. 2h, or both")
        return asked

    def options(self) -> dict[str, Any]:
        """What is asked, as options by field name."""
        told = {
            **self.model_dump(exclude={"run_id", "also"}),
            "benchmark": ",".join((self.benchmark, *self.also)),
            "refuse_overlaps": self.refuse_overlaps or None,
        }
        return {name: value for name, value in told.items() if value not in (None, "", (), "never")}


def confined_guard(text: str, given: OpenFolders) -> str:
    """`mmlu:-2` with its benchmark confined; one without points is left to the builder, which refuses it. Raises ToolError."""
    name, colon, points = text.rpartition(":-")
    return given.confined(name, resolve.registered_names()) + colon + points if colon else text
