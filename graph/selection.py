"""Which data sets a run learns from: the user's, or those that the researcher chooses from the cards of all registered ones."""

from __future__ import annotations

from tuneloop.agents.policy.selection import Selection
from tuneloop.core.benchmark import Benchmark
from tuneloop.core.events import AgentAnswered
from tuneloop.core.files import read_json, write_json
from tuneloop.graph.context import Context
from tuneloop.graph.opening import choice


def chosen_datasets(ctx: Context, benchmark: Benchmark) -> tuple[str, ...]:
    """Names; nothing is fetched to choose. Raises SetupError when no card fits the benchmark."""
    if ctx.bench.spec.datasets:
        return ctx.bench.spec.datasets
    if ctx.run.selection.is_file():
        return Selection.model_validate(read_json(ctx.run.selection)).datasets
    selection = choice(benchmark)
    write_json(ctx.run.selection, selection.model_dump(mode="json"))
    says = f"data: {', '.join(selection.datasets)}"
    ctx.emit(AgentAnswered(agent="researcher", says=says, why=selection.reason))
    return selection.datasets
