"""FT_ENABLE_MCP_PARAM_SEARCH: agents search the parameter server, or have the filtered list in their prompt."""

from __future__ import annotations

import pytest

from tests.conftest import SHARED_HOME
from tests.prompts.test_prompts import BRIEF
from tuneloop.agents.config_coder import CONFIG_CODER
from tuneloop.agents.critic import CRITIC
from tuneloop.core.settings import Settings
from tuneloop.graph.parameters import SEARCH, allowed, static_list
from tuneloop.mcp_servers import direct
from tuneloop.mcp_servers.scope import Scope
from tuneloop.tools.engines import Engine


def told(settings: Settings, tools: tuple[str, ...]) -> str:
    scope = Scope(None, settings)
    return static_list(tools, BRIEF, settings, lambda tool, **asked: direct.call(scope, tool, **asked))


def test_by_default_agents_search(llamafactory: Engine) -> None:
    settings = Settings(FT_FILE_PATH=SHARED_HOME)
    assert set(CONFIG_CODER.tools) & SEARCH
    assert allowed(CONFIG_CODER.tools, settings) == CONFIG_CODER.tools
    assert told(settings, CONFIG_CODER.tools) == ""


@pytest.mark.parametrize("off", ["false", "False", "0"])
def test_switched_off_the_list_is_in_the_prompt(off: str, llamafactory: Engine) -> None:
    settings = Settings(FT_FILE_PATH=SHARED_HOME, FT_ENABLE_MCP_PARAM_SEARCH=off)
    assert SEARCH.isdisjoint(allowed(CONFIG_CODER.tools, settings))
    assert "params_check_config" in allowed(CONFIG_CODER.tools, settings)
    text = told(settings, CONFIG_CODER.tools)
    assert "`lora_rank`" in text and "`use_galore`" not in text
    assert told(settings, CRITIC.tools) == ""
