"""An agent is asked: its answer is found on disk, or thought of and written there; people are heard meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from tuneloop import agents
from tuneloop.agents import Agent
from tuneloop.core.bridge import given_up, run_sync
from tuneloop.core.brief import Brief
from tuneloop.core.errors import AsksError, LimitReachedError, Paused, RecipeError
from tuneloop.core.events import AgentAnswered
from tuneloop.core.files import read_json, write_atomic, write_json
from tuneloop.graph.budget import asked_to_finish
from tuneloop.graph.context import Context
from tuneloop.graph.parameters import allowed, static_list
from tuneloop.graph.steering.inbox_listener import has_messages, raise_if_paused

Answer = TypeVar("Answer", bound=BaseModel)
GLANCE = 0.25  # seconds between looks whether it shall pause


def ask(ctx: Context, agent: Agent[Answer], brief: Brief) -> Answer:
    """The agent's answer for this attempt. Raises RecipeError when there is none, Paused when the inbox says so."""
    place = ctx.folder.answers / f"{agent.name}.{ctx.state.attempt}"
    file = place.with_suffix(place.suffix + ".json")
    if file.is_file():
        return agent.answer.model_validate(read_json(file))
    prompt = agent.prompt(brief) + static_list(agent.tools, brief, ctx.settings, ctx.call)
    write_atomic(Path(f"{place}.md"), prompt)
    try:
        answer = run_sync(_thought(ctx, agent, prompt, brief))
    except LimitReachedError as e:
        if ctx.attended and not asked_to_finish(ctx.run):
            raise AsksError(str(e)) from e
        raise
    write_json(file, answer.model_dump(mode="json"))
    says, why = agent.summary(answer)
    ctx.emit(AgentAnswered(experiment=ctx.state.experiment, agent=agent.name, says=says, why=why))
    return answer


async def _thought(ctx: Context, agent: Agent[Answer], prompt: str, brief: Brief) -> Answer:
    from tuneloop.mcp_servers.client import open_toolbox  # fastmcp is slow to import: only where it is needed

    async with open_toolbox(ctx.scope, allowed(agent.tools, ctx.settings)) as tools:
        work = asyncio.create_task(agents.ask(agent, ctx.planner, prompt, brief, tools))
        try:
            await _attended(ctx, work, agent.name)
        finally:
            work.cancel()
            await asyncio.wait({work})
        return work.result()


async def _attended(ctx: Context, work: asyncio.Task[Answer], name: str) -> None:
    """Until it is done, or a message asks for a pause, or the run's time is over."""
    left = ctx.seconds_left()
    clock = ctx.clock() if left is not None and left > 0 else lambda: None
    while not work.done():
        await asyncio.wait({work}, timeout=GLANCE)
        if given_up():
            raise Paused("cancelled by the caller")
        if has_messages(ctx):
            await asyncio.to_thread(raise_if_paused, ctx)
        if (now := clock()) is not None and now < 0 and not work.done():
            raise RecipeError(f"the run's time was over while the {name} thought", culprit="environment")
