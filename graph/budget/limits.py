"""What a run may use and has used: what was asked for at its start, what directives added, what the ledger says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tuneloop.agents.listener import LISTENER
from tuneloop.core.budget import Kind, Limits, SpendingLine, format_amount, spending_lines
from tuneloop.core.directive import Finish
from tuneloop.core.directive_log import open_directives
from tuneloop.core.errors import InfrastructureError, LimitReachedError
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.tools.budget.limits import budget_extensions, current_limits, set_mark
from tuneloop.tools.budget.spending import (
    all_entries,
    booked_entries,
    computes_on_gpus,
    gpu_count,
    gpu_hours,
    node_gpus,
    run_spending,
    total_cost,
    total_tokens,
)
from tuneloop.tools.llm_proxy.access import missing
from tuneloop.tools.llm_proxy.ledger import Entry
from tuneloop.tools.runs.manifest import read_spec


def seconds_limit(run: RunFolder, spec: RunSpec) -> float | None:
    """Seconds of work, all sessions together; None: unlimited."""
    return current_limits(run, spec).seconds


def experiments_limit(run: RunFolder, spec: RunSpec) -> int | None:
    """Experiments; None: unlimited."""
    return None if spec.loop_n is None else spec.loop_n + sum(e.experiments for e in budget_extensions(run))


def is_finish_requested(run: RunFolder) -> bool:
    """Whether no experiment shall follow the open one."""
    return any(isinstance(d.command, Finish) for d in open_directives(run.directives))


def spent_of_limits(run: RunFolder, spec: RunSpec, seconds: float) -> list[SpendingLine]:
    """What was spent of each limit that there is; `seconds` of work so far."""
    allowed = current_limits(run, spec)
    return (
        []
        if allowed == Limits()
        else [line for line in spending_lines(run_spending(run, seconds), allowed) if line.limit is not None]
    )


def devices(run: RunFolder, spec: RunSpec, jobs: int) -> int:
    """GPUs that so many jobs of the run may hold at once: all of this machine, or on nodes those of each job."""
    return gpu_count() if spec.executor == "local" else jobs * node_gpus(run)


def device_seconds(run: RunFolder, spec: RunSpec, jobs: int) -> float | None:
    """Seconds for which so many jobs may still hold their GPUs; None: unlimited. Jobs that wait for a node hold none."""
    limit = current_limits(run, spec).gpu_hours
    if limit is None or not computes_on_gpus(run):
        return None
    return (limit - sum(gpu_hours(run).values())) * 3600 / devices(run, spec, jobs)


def check_call_fits(run: RunFolder, entry: Entry) -> None:
    """Whether a call fits beside all that was spent and is set aside.

    Raises LimitReachedError, and notes which limit it was, where it would not fit beside what is settled either: what is
    set aside may come back. The listener's calls end no run. InfrastructureError where money is limited and nobody knows the price.
    """
    allowed = current_limits(run, read_spec(run)) if run.spec.is_file() else Limits()
    if allowed.money is not None and entry.cost is None:
        raise InfrastructureError(f"money is limited, and there is {missing([entry.model])}")
    if allowed.tokens is None and allowed.money is None:
        return
    lasting = {kind for kind, used, limit in exceeded_limits((*booked_entries(run), entry), allowed) if used > limit}
    for kind, used, limit in exceeded_limits((*all_entries(run), entry), allowed):
        if used > limit:
            if kind in lasting and entry.job != f"agent:{LISTENER.name}":
                set_mark(run, "reached", kind, limit)
            raise LimitReachedError(
                f"the run may spend {format_amount(kind, limit)}, and with the next call of a model it would be up to "
                f"{format_amount(kind, used)}"
            )


def exceeded_limits(rows: Sequence[Entry], allowed: Limits) -> Iterator[tuple[Kind, float, float]]:
    """Limited kind, what would be spent of it, limit."""
    if allowed.tokens is not None:
        yield "tokens", total_tokens(rows), allowed.tokens
    if allowed.money is not None:
        yield "money", total_cost(rows), allowed.money
