"""With FT_ENABLE_MCP_PARAM_SEARCH=false agents do not search the parameter server: the filtered list is in their prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tuneloop.core.brief import Brief
from tuneloop.core.settings import Settings
from tuneloop.tools.params.dimensions import BY_NAME, DEFAULTS

SEARCH = frozenset(
    (
        "params_query_parameters",
        "params_describe_parameter",
        "params_get_decision_guidance",
        "params_compare_methods",
    )
)


def allowed(tools: tuple[str, ...], settings: Settings) -> tuple[str, ...]:
    """The agent's tools, without the search where that is off."""
    return tools if settings.param_search else tuple(tool for tool in tools if tool not in SEARCH)


def static_list(tools: tuple[str, ...], brief: Brief, settings: Settings, call: Callable[..., Any]) -> str:
    """What is added to the prompt of an agent that would search; "" where it may."""
    if settings.param_search or SEARCH.isdisjoint(tools):
        return ""
    plan = brief.hypothesis.training_plan if brief.hypothesis else {}
    method = next((value for value in plan.values() if value in BY_NAME["method"].names), DEFAULTS["method"])
    answer = call("params_query_parameters", text=f"stage: sft, method: {method}")
    return f"\n## Parameters\n{answer['answer']}\n"
