"""write_config: the config coder writes `train.yaml`."""

from __future__ import annotations

from typing import Any

from tuneloop.agents.config_coder import CONFIG_CODER
from tuneloop.core.files import write_atomic
from tuneloop.graph.agent_calls.brief import build_brief
from tuneloop.graph.agent_calls.run_agent import run_agent
from tuneloop.graph.context import Context


def write_config(ctx: Context) -> dict[str, Any]:
    """Write the config, unless a repair concerns only the script or the data."""
    failure = ctx.state.failure
    wanted = failure is None or failure.leads == "write_config" or failure.culprit == "user"
    if wanted or not ctx.folder.config.is_file():
        answer = run_agent(ctx, CONFIG_CODER, build_brief(ctx))
        write_atomic(ctx.folder.config, answer.yaml)
    return {"stage": "validate"}
