"""Where a task of the bench lives: a run of its own in a home that links to the real engines and models."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.made_task import Made
from planner.space import Space
from planner.tasks import make
from tuneloop.agents.critic import CRITIC
from tuneloop.agents.policy.parameter_map import read_parameter_map
from tuneloop.agents.policy.situation import read_situation
from tuneloop.agents.researcher import RESEARCHER
from tuneloop.core.async_bridge import run_sync
from tuneloop.core.brief import Brief, BudgetLeft
from tuneloop.core.errors import ToolError
from tuneloop.core.protocols import Toolbox, ToolCard
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings, load_settings
from tuneloop.graph.agent_calls.brief import task_card
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle.drive import create_run
from tuneloop.graph.nodes.prepare import fetch_and_build
from tuneloop.graph.state import State
from tuneloop.mcp_servers.client import open_toolbox
from tuneloop.tools.engines import ensure_engine
from tuneloop.tools.hub import models
from tuneloop.tools.runs.signature import write_setup

MAY_ASK = tuple(dict.fromkeys((*RESEARCHER.tools, *CRITIC.tools)))


def silent(_what: str, _done: int, _total: int) -> None:
    """Nobody watches."""


def home(folder: Path) -> Settings:
    """Settings of a home at `folder` with the engines and models of the real one."""
    real = load_settings()
    for name in ("llamafactory", "opencompass"):
        ensure_engine(name, real, silent)
    models.resolve_model("tiny", real, silent)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("engines", "models"):
        if not (folder / name).exists():
            (folder / name).symlink_to(getattr(real.home, name).resolve())
    own = {"FT_FILE_PATH": folder.resolve(), "FT_ENGINES_DIR": "engines", "FT_DOCKER_ENABLE_CACHE": False}
    return Settings.model_validate(own)


class KeptTools:
    """The Toolbox of a run; what profile, card and suggestions say does not change and is kept."""

    LASTING = ("data_profile_dataset", "params_model_card", "params_suggest_config", "params_query_parameters")

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self._kept: dict[str, Any] = {}

    async def call(self, tool: str, **arguments: Any) -> Any:
        """The tool's answer. Raises ToolError for GRPO, which no real run of the surface had."""
        if arguments.get("stage") == "grpo":
            raise ToolError("the space has SFT alone")
        key = repr((tool, sorted(arguments.items())))
        if tool in self.LASTING and key in self._kept:
            return self._kept[key]
        async with open_toolbox(self.ctx.scope, None) as tools:
            self._kept[key] = await tools.call(tool, **arguments)
        return self._kept[key]

    async def names(self) -> Sequence[str]:
        """What researcher and critic may ask about data and parameters."""
        return tuple(name for name in MAY_ASK if name.startswith(("data_", "params_")))

    async def cards(self) -> Sequence[ToolCard]:
        """As the servers describe them; what is told of experiments included."""
        async with open_toolbox(self.ctx.scope, MAY_ASK) as tools:
            return await tools.cards()


@dataclass(frozen=True)
class Arena:
    """A task as players see it: its raw data, what agents are told of it, its tools, its recipe space.

    `datasets`: the folder that data scripts read.
    """

    made: Made
    data: Path
    datasets: Path
    brief: Brief
    tools: Toolbox

    @functools.cached_property
    def space(self) -> Space:
        """Of this task."""
        return Space(run_sync(read_situation(self.brief, self.tools)), run_sync(read_parameter_map(self.tools)))


@dataclass(frozen=True)
class Site:
    """A task that is set up for real runs."""

    arena: Arena
    ctx: Context

    def at(self, number: int) -> Context:
        """The context of one experiment."""
        return Context(self.ctx.run, self.ctx.settings, State(run_id=self.ctx.run.id, experiment=number))


@contextmanager
def site(name: str, settings: Settings) -> Iterator[Site]:
    """The task `name` in the home of `settings`, found or made; its engines' workers are ended behind it."""
    made = make(name)
    benchmark, data = made.write(settings.home.root / "tasks")
    spec = RunSpec(
        benchmark=str(benchmark.resolve()),
        base_model="tiny",
        datasets=(str(data.resolve()),),
        on_stop="continue",
    )  # overlaps: every player's script leaves out what the profile names anyway
    ctx = opened(spec, settings, f"bench-{name}")
    brief = Brief(task=task_card(ctx), experiment=1, budget=BudgetLeft(experiments_left=None, seconds_left=None))
    try:
        yield Site(Arena(made, data.resolve(), ctx.run_tools.view.root, brief, KeptTools(ctx)), ctx)
    finally:
        ctx.run_tools.workers.stop()


def opened(spec: RunSpec, settings: Settings, name: str) -> Context:
    """The run called `name`, prepared but for its baseline."""
    run = settings.home.run(name)
    if not run.spec.is_file():
        create_run(spec, settings, run.id)
    ctx = Context(run, settings, State(run_id=run.id))
    if not run.setup.is_file():
        write_setup(run, fetch_and_build(ctx))
    return ctx
