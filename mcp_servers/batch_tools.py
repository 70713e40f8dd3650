"""Tools of the server `runs` for batches: many runs from one list of tasks, side by side, compared at the end."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from tuneloop.mcp_servers.injection_marking import mark_answer
from tuneloop.mcp_servers.scope import Scope
from tuneloop.mcp_servers.server import Count, Offset
from tuneloop.tools.batch import background
from tuneloop.tools.batch.run import find_batch
from tuneloop.tools.runs.request import OpenFolders

NAME = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,58}[A-Za-z0-9_])?$"
New = Annotated[
    str,
    Field(pattern=NAME, description="name of the new batch; the same name and tasks again start nothing a second time"),
]
Batch = Annotated[str, Field(min_length=1, max_length=255, description="name of a batch")]
AnyBatch = Annotated[str, Field(max_length=255, description="name of a batch; empty: the newest")]
Options = dict[str, Any]
Tasks = Annotated[
    list[Options],
    Field(
        min_length=1,
        max_length=1000,
        description="one object a task: `model` and `benchmark`; where wanted `gpus` (a count, or numbers as '0,1'), "
        "`device_memory` ('40GB' on each GPU) and options of a run: loop_n, timeout, dataset, seed, max_cost, …",
    ),
]
Defaults = Annotated[Options, Field(description="fields of every task that does not name them")]
Scenarios = Annotated[
    dict[str, Options],
    Field(
        max_length=1000,
        description="options by scenario's name: each task runs once for each of them; or by benchmark its `benchmark_description`",
    ),
]
Parallel = Annotated[
    int | None, Field(ge=1, le=64, description="runs side by side; empty: one for each GPU, else one at a time")
]


class BatchTools:
    """Functions for batches: the owner's, below one home. No agent of a run has them."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def start_batch(
        self,
        name: New,
        tasks: Tasks,
        defaults: Defaults = {},  # noqa: B006 - never changed, and the schema shows it
        scenarios: Scenarios = {},  # noqa: B006
        parallel: Parallel = None,
    ) -> dict[str, Any]:
        """Start a batch (queue, sweep): many models × benchmarks × scenarios from one list of tasks, several in parallel.

        Every task is checked before any starts. Returns as soon as the batch is accepted; it survives this server. A task
        without loop_n and timeout has 12h. Follow it with batch_status.
        """
        settings = self.scope.settings
        given = {"tasks": tasks, "defaults": defaults, "scenarios": scenarios}
        asked = {part: value for part, value in given.items() if value}
        folders = OpenFolders(settings.home, self.scope.roots)
        folder = background.start_batch(settings, folders, name, asked, parallel)
        if not folder.batch.is_file():
            return {"batch": folder.id, "state": "starting", "folder": str(folder.root)}
        return mark_answer(background.batch_facts(folder, settings, 0))

    def batch_status(self, batch: AnyBatch = "", count: Count = 20, offset: Offset = 0) -> dict[str, Any]:
        """How far a batch is: state of each of its tasks, which failed and why, and the table that compares all of them.

        The comparison has a row for each benchmark, model and scenario: mean scores on the sealed tests, gain with its 95 %
        interval, cost and time. Runs and rows come by pages.
        """
        settings = self.scope.settings
        found = find_batch(settings.home, batch)
        return mark_answer(background.batch_facts(found, settings, count, offset))

    def resume_batch(self, batch: Batch) -> dict[str, Any]:
        """Go on with a batch that was stopped or killed; failed tasks of it are tried again. Returns at once."""
        settings = self.scope.settings
        found = find_batch(settings.home, batch)
        background.resume_batch(found, settings)
        return mark_answer(background.batch_facts(found, settings, 0))

    def stop_batch(self, batch: Batch) -> dict[str, Any]:
        """Stop a whole batch: tasks that wait are not begun, tasks at work are ended with all kept; resume_batch goes on."""
        settings = self.scope.settings
        found = find_batch(settings.home, batch)
        done = background.stop_batch(found, settings)
        said = "no run of it is started any more, those at work were asked to pause"
        note = said if done else "asked to stop; batch_status says when it has"
        return {"batch": found.id, "stopped": done, "note": f"{note}. Everything is kept, resume_batch goes on"}
