"""research: the researcher proposes one idea; a new experiment begins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tuneloop.agents.researcher import RESEARCHER
from tuneloop.core.files import write_json
from tuneloop.graph.brief import brief
from tuneloop.graph.context import Context
from tuneloop.graph.journal import load_journal


def research(ctx: Context) -> dict[str, Any]:
    """Open the next experiment with a hypothesis."""
    number = len(load_journal(ctx.run).experiments) + 1
    here = replace(ctx, state=ctx.state.model_copy(update={"experiment": number, "attempt": 0, "trouble": None}))
    opened = {"experiment": number, "attempt": 0, "trouble": None}
    if not here.folder.hypothesis.is_file():
        answer = here.ask(RESEARCHER, brief(here))
        write_json(here.folder.hypothesis, answer.model_dump(mode="json"))
    return {**opened, "stage": "engineer_data"}
