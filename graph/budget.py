"""What a run may use and has used: what was asked for at its start, what directives added, what the ledger says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tuneloop.agents.listener import LISTENER
from tuneloop.core.directive import Finish
from tuneloop.core.directive_log import open_directives
from tuneloop.core.errors import LimitReachedError, WorldError
from tuneloop.core.layout import RunFolder
from tuneloop.core.ledger import Kind, Limits, Line, amount, lines
from tuneloop.core.run import RunSpec
from tuneloop.tools.ledger.devices import count, gpu_hours
from tuneloop.tools.ledger.limits import extensions, limits
from tuneloop.tools.ledger.marks import set_mark
from tuneloop.tools.ledger.spent import booked, entries, money, spent, tokens
from tuneloop.tools.llm_proxy.access import missing
from tuneloop.tools.llm_proxy.ledger import Entry
from tuneloop.tools.runs.manifest import read_spec


def seconds_limit(run: RunFolder, spec: RunSpec) -> float | None:
    """Seconds of work, all sittings together; None: unlimited."""
    return limits(run, spec).seconds


def experiments_limit(run: RunFolder, spec: RunSpec) -> int | None:
    """Experiments; None: unlimited."""
    return None if spec.loop_n is None else spec.loop_n + sum(e.experiments for e in extensions(run))


def asked_to_finish(run: RunFolder) -> bool:
    """Whether no experiment shall follow the open one."""
    return any(isinstance(d.command, Finish) for d in open_directives(run.directives))


def limited(run: RunFolder, spec: RunSpec, seconds: float) -> list[Line]:
    """What was spent of each limit that there is; `seconds` of work so far."""
    allowed = limits(run, spec)
    return (
        [] if allowed == Limits() else [line for line in lines(spent(run, seconds), allowed) if line.limit is not None]
    )


def device_seconds(run: RunFolder, limit: float) -> float:
    """Seconds for which a job may still hold this machine's GPUs, of `limit` GPU-hours."""
    return (limit - sum(gpu_hours(run).values())) * 3600 / count()


def granted(run: RunFolder, spec: RunSpec, before: float) -> float:
    """Seconds of this machine's GPUs that were added since the limit was `before` GPU-hours; below 0: taken back."""
    now = limits(run, spec).gpu_hours
    return 0.0 if now is None else (now - before) * 3600 / count()


def check(run: RunFolder, entry: Entry) -> None:
    """Whether a call fits beside all that was spent and is set aside.

    Raises LimitReachedError, and notes which limit it was, where it would not fit beside what is settled either: what is
    set aside may come back. The listener's calls end no run. WorldError where money is limited and nobody knows the price.
    """
    allowed = limits(run, read_spec(run)) if run.spec.is_file() else Limits()
    if allowed.money is not None and entry.cost is None:
        raise WorldError(f"money is limited, and there is {missing([entry.model])}")
    if allowed.tokens is None and allowed.money is None:
        return
    lasting = {kind for kind, used, limit in wanted((*booked(run), entry), allowed) if used > limit}
    for kind, used, limit in wanted((*entries(run), entry), allowed):
        if used > limit:
            if kind in lasting and entry.job != f"agent:{LISTENER.name}":
                set_mark(run, "reached", kind, limit)
            raise LimitReachedError(
                f"the run may spend {amount(kind, limit)}, and with the next call of a model it would be up to "
                f"{amount(kind, used)}"
            )


def wanted(rows: Sequence[Entry], allowed: Limits) -> Iterator[tuple[Kind, float, float]]:
    """Limited kind, what would be spent of it, limit."""
    if allowed.tokens is not None:
        yield "tokens", tokens(rows), allowed.tokens
    if allowed.money is not None:
        yield "money", money(rows), allowed.money
