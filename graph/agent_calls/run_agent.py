"""With FT_ENABLE_MCP_PARAM_SEARCH=false agents do not search the parameter server: the filtered list is in their prompt."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from tuneloop import agents
from tuneloop.agents import Agent
from tuneloop.core.async_bridge import is_cancelled, run_sync
from tuneloop.core.brief import Brief
from tuneloop.core.errors import ApprovalNeededError, LimitReachedError, PausedError, RecipeError
from tuneloop.core.events import AgentAnswered
from tuneloop.core.files import read_model, write_atomic, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.budget.limits import is_finish_requested
from tuneloop.graph.context import Context
from tuneloop.graph.steering.inbox_listener import has_messages, raise_if_paused
from tuneloop.tools.config.decisions import BY_NAME, DEFAULTS
from tuneloop.tools.config.installed import find_catalog
from tuneloop.tools.config.query import answer as query_parameters

SEARCH = frozenset(
    (
        "params_query_parameters",
        "params_describe_parameter",
        "params_get_decision_guidance",
        "params_compare_methods",
    )
)


def allowed_tools(tools: tuple[str, ...], settings: Settings) -> tuple[str, ...]:
    """The agent's tools, without the search where that is off."""
    return tools if settings.param_search else tuple(tool for tool in tools if tool not in SEARCH)


TRAINED = frozenset(("training_loss_curve", "training_forecast", "training_show_tokens"))
MEASURED = frozenset(("evaluation_compare",))
BUILT = frozenset(("data_report",))


def answerable_tools(tools: tuple[str, ...], run: RunFolder) -> tuple[str, ...]:
    """Without those that cannot answer yet: what they read is not there in any experiment."""
    silent = frozenset[str]()
    if not any(run.experiments.glob("[0-9]*/jobs/smoke_run.*")):
        silent |= TRAINED
    if not any(run.experiments.glob("[0-9]*/scores.json")):
        silent |= MEASURED
    if not any(run.experiments.glob("[0-9]*/jobs/dry_run.*")):
        silent |= BUILT
    return tuple(tool for tool in tools if tool not in silent)


def static_parameter_list(tools: tuple[str, ...], brief: Brief, settings: Settings) -> str:
    """What is added to the prompt of an agent that would search; "" where it may."""
    if settings.param_search or SEARCH.isdisjoint(tools):
        return ""
    plan = brief.hypothesis.training_plan if brief.hypothesis else {}
    method = next((value for value in plan.values() if value in BY_NAME["method"].names), DEFAULTS["method"])
    found = query_parameters(f"stage: sft, method: {method}", find_catalog(settings))
    return f"\n## Parameters\n{found.plain['answer']}\n"


# An agent is asked: its answer is found on disk, or thought of and written there; people are heard meanwhile.

Answer = TypeVar("Answer", bound=BaseModel)
GLANCE = 0.25  # seconds between looks whether it shall pause


def run_agent(ctx: Context, agent: Agent[Answer], brief: Brief) -> Answer:
    """The agent's answer for this attempt. Raises RecipeError when there is none, PausedError when the inbox says so."""
    place = ctx.folder.answers / f"{agent.name}.{ctx.state.attempt}"
    file = place.with_suffix(place.suffix + ".json")
    if file.is_file():
        return read_model(file, agent.answer)
    prompt = agent.prompt(brief) + static_parameter_list(agent.tools, brief, ctx.settings)
    write_atomic(Path(f"{place}.md"), prompt)
    try:
        answer = run_sync(_call_planner(ctx, agent, prompt, brief))
    except LimitReachedError as e:
        if ctx.interactive and not is_finish_requested(ctx.run):
            raise ApprovalNeededError(str(e)) from e
        raise
    write_json(file, answer.model_dump(mode="json"))
    says, why = agent.summary(answer)
    ctx.emit(AgentAnswered(experiment=ctx.state.experiment, agent=agent.name, says=says, why=why))
    return answer


async def _call_planner(ctx: Context, agent: Agent[Answer], prompt: str, brief: Brief) -> Answer:
    from tuneloop.mcp_servers.client import open_toolbox  # fastmcp is slow to import: only where it is needed

    offered = answerable_tools(allowed_tools(agent.tools, ctx.settings), ctx.run)
    async with open_toolbox(ctx.scope, offered) as tools:
        work = asyncio.create_task(agents.ask(agent, ctx.planner, prompt, brief, tools))
        try:
            await _poll_inbox_while(ctx, work, agent.name)
        finally:
            work.cancel()
            await asyncio.wait({work})
        return work.result()


async def _poll_inbox_while(ctx: Context, work: asyncio.Task[Answer], name: str) -> None:
    """Until it is done, or a message asks for a pause, or the run's time is over."""
    left = ctx.seconds_left()
    clock = ctx.clock() if left is not None and left > 0 else lambda: None
    while not work.done():
        await asyncio.wait({work}, timeout=GLANCE)
        if is_cancelled():
            raise PausedError("cancelled by the caller")
        if has_messages(ctx):
            await asyncio.to_thread(raise_if_paused, ctx)
        if (now := clock()) is not None and now < 0 and not work.done():
            raise RecipeError(f"the run's time was over while the {name} thought", culprit="environment")
