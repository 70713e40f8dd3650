"""engineer_data: the data engineer writes `process_data.py`."""

from __future__ import annotations

from typing import Any

from tuneloop.agents.data_engineer import DATA_ENGINEER
from tuneloop.core.files import write_atomic
from tuneloop.graph.agent_calls.brief import build_brief
from tuneloop.graph.agent_calls.run_agent import run_agent
from tuneloop.graph.context import Context


def engineer_data(ctx: Context) -> dict[str, Any]:
    """Write the script; after a repair the config is kept when it was not to blame."""
    answer = run_agent(ctx, DATA_ENGINEER, build_brief(ctx))
    write_atomic(ctx.folder.script, answer.code)
    return {"stage": "write_config"}
