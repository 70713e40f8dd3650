"""Which data sets a run learns from: the user's, or those that the researcher chooses from the cards of all registered ones."""

from __future__ import annotations

from tuneloop.agents.policy.selection import Selection, select
from tuneloop.core.benchmark import Benchmark
from tuneloop.core.errors import SetupError
from tuneloop.core.events import AgentAnswered
from tuneloop.core.files import read_json, write_json
from tuneloop.graph.context import Context
from tuneloop.tools import datasets


def chosen_datasets(ctx: Context, benchmark: Benchmark) -> tuple[str, ...]:
    """Names; nothing is fetched to choose. Raises SetupError when no card fits the benchmark."""
    if ctx.bench.spec.datasets:
        return ctx.bench.spec.datasets
    if ctx.run.selection.is_file():
        return Selection.model_validate(read_json(ctx.run.selection)).datasets
    selection = select(benchmark, datasets.cards().values())
    if not selection.datasets:
        raise SetupError(
            f"no registered data set fits benchmark {benchmark.name} (domain {benchmark.domain}): name one with --dataset"
        )
    write_json(ctx.run.selection, selection.model_dump(mode="json"))
    says = f"data: {', '.join(selection.datasets)}"
    ctx.emit(AgentAnswered(agent="researcher", says=says, why=selection.reason))
    return selection.datasets
