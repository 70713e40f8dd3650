"""FT_ENABLE_MCP_PARAM_SEARCH: agents search the parameter server, or have the filtered list in their prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.conftest import SHARED_HOME
from tests.prompts.test_prompts import BRIEF
from tuneloop.agents import Agent, ask
from tuneloop.agents.config_coder import CONFIG_CODER
from tuneloop.agents.critic import CRITIC
from tuneloop.agents.policy import OfflinePolicy
from tuneloop.agents.researcher import RESEARCHER
from tuneloop.agents.validator import VALIDATOR
from tuneloop.core.protocols import ToolCard
from tuneloop.core.settings import Settings
from tuneloop.graph.agent_calls.brief import build_brief
from tuneloop.graph.agent_calls.run_agent import SEARCH, allowed_tools, static_parameter_list
from tuneloop.graph.context import Context
from tuneloop.graph.state import State
from tuneloop.mcp_servers.client import open_toolbox
from tuneloop.mcp_servers.scope import Scope
from tuneloop.tools.engines import Engine


def told(settings: Settings, tools: tuple[str, ...]) -> str:
    return static_parameter_list(tools, BRIEF, settings)


def test_by_default_agents_search(llamafactory: Engine) -> None:
    settings = Settings(FT_FILE_PATH=SHARED_HOME)
    assert set(CONFIG_CODER.tools) & SEARCH
    assert allowed_tools(CONFIG_CODER.tools, settings) == CONFIG_CODER.tools
    assert told(settings, CONFIG_CODER.tools) == ""


@pytest.mark.parametrize("off", ["false", "False", "0"])
def test_switched_off_the_list_is_in_the_prompt(off: str, llamafactory: Engine) -> None:
    settings = Settings(FT_FILE_PATH=SHARED_HOME, FT_ENABLE_MCP_PARAM_SEARCH=off)
    assert SEARCH.isdisjoint(allowed_tools(CONFIG_CODER.tools, settings))
    assert "params_check_config" in allowed_tools(CONFIG_CODER.tools, settings)
    text = told(settings, CONFIG_CODER.tools)
    assert "`lora_rank`" in text and "`use_galore`" not in text
    assert told(settings, CRITIC.tools) == ""


@pytest.mark.parametrize("agent", [RESEARCHER, CONFIG_CODER, VALIDATOR], ids=lambda a: a.name)
async def test_both_ways_the_offline_policy_decides_the_same(whole_run, agent: Agent[Any]) -> None:
    """Over MCP, with the tools that each way leaves the agent."""
    answers: list[Any] = []
    asked: list[tuple[str, bool]] = []
    for search in (True, False):
        settings = Settings(FT_FILE_PATH=whole_run.home, FT_ENABLE_MCP_PARAM_SEARCH=search)
        ctx = Context(whole_run.run, settings, State(run_id="whole", experiment=1))
        told = (
            build_brief(ctx, failure="train: x.yaml: lower learning_rate") if agent is VALIDATOR else build_brief(ctx)
        )
        if agent is RESEARCHER:
            told = told.model_copy(update={"experiment": 2})
        tools = Noted(ctx.scope, allowed_tools(agent.tools, settings), asked)
        async with open_toolbox(ctx.scope, tools.allow) as opened:
            tools.opened = opened
            answers.append(await ask(agent, OfflinePolicy(), "", told, tools))
    assert answers[0] == answers[1]
    refused = [tool for tool, ok in asked if not ok]
    assert set(refused) <= SEARCH
    assert agent is VALIDATOR or (("params_query_parameters", True) in asked and refused)


class Noted:
    """A toolbox that notes what was asked for and whether it was answered."""

    def __init__(self, scope: Scope, allow: tuple[str, ...], asked: list[tuple[str, bool]]) -> None:
        self.allow, self.asked = allow, asked
        self.opened: Any = None

    async def call(self, tool: str, **arguments: Any) -> Any:
        self.asked.append((tool, tool in self.allow))
        return await self.opened.call(tool, **arguments)

    async def names(self) -> Sequence[str]:
        found: Sequence[str] = await self.opened.names()
        return found

    async def cards(self) -> Sequence[ToolCard]:
        found: Sequence[ToolCard] = await self.opened.cards()
        return found


@pytest.mark.parametrize("agent", [CONFIG_CODER, VALIDATOR], ids=lambda a: a.name)
async def test_config_coder_and_validator_have_the_parameter_server(whole_run, agent: Agent[Any]) -> None:
    scope = Scope(whole_run.run, Settings(FT_FILE_PATH=whole_run.home))
    async with open_toolbox(scope, None) as everything, open_toolbox(scope, agent.tools) as mine:
        offered = {name for name in await everything.names() if name.startswith("params_")}
        assert offered <= set(await mine.names())
        told = await mine.call("params_query_parameters", text="what is lora_rank")
        assert told["names"][0] == "lora_rank"
