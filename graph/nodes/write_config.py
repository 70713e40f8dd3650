"""write_config: the config coder writes `train.yaml`."""

from __future__ import annotations

from typing import Any

from tuneloop.agents.config_coder import CONFIG_CODER
from tuneloop.core.files import write_atomic
from tuneloop.graph.asking import ask
from tuneloop.graph.brief import brief
from tuneloop.graph.context import Context


def write_config(ctx: Context) -> dict[str, Any]:
    """Write the config, unless a repair concerns only the script or the data."""
    trouble = ctx.state.trouble
    wanted = trouble is None or trouble.leads == "write_config" or trouble.culprit == "user"
    if wanted or not ctx.folder.config.is_file():
        answer = ask(ctx, CONFIG_CODER, brief(ctx))
        write_atomic(ctx.folder.config, answer.yaml)
    return {"stage": "validate"}
