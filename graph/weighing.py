"""Whether a wish can be met: what the installed release, the data, the limits and earlier wishes say to it."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from tuneloop.core.directive import Avoid, Bound, Delete, Directive, Extend, Keep, Publish, Sources, Use, Wish
from tuneloop.core.ledger import Amounts, amount, lines
from tuneloop.core.obedience import allowed, same, within
from tuneloop.graph.budget import experiments_limit
from tuneloop.graph.context import Context
from tuneloop.graph.obeying import catalog
from tuneloop.graph.removing import needed
from tuneloop.tools.data_view import files_of, sources_of
from tuneloop.tools.ledger.limits import limits as limits_of
from tuneloop.tools.params.names import unknown
from tuneloop.tools.params.profile import overwritten, refusal
from tuneloop.tools.params.values import complaint
from tuneloop.tools.runs.journal import load_journal

SHOWN = 8


def objection(ctx: Context, wish: Wish, given: Sequence[Directive]) -> str:
    """Why the wish cannot be met, and what would be right; "" where it can."""
    ending = ctx.run.final.is_dir() and isinstance(wish, Extend)
    if ending or (ctx.run.report_json.is_file() and not isinstance(wish, Delete | Publish)):
        return f'the run is over; tuneloop fork {ctx.run.id} --at N "…" goes on from any of its experiments'
    match wish:
        case Use() | Bound() | Keep() | Avoid():
            return parameter(ctx, wish) or contradiction(wish, given)
        case Sources():
            return sources(ctx, wish, given)
        case Extend():
            return limits(ctx, wish)
        case Delete(what=what):
            return needed(ctx, what)
    return ""


def parameter(ctx: Context, wish: Use | Bound | Keep | Avoid) -> str:
    """Against the installed release and what the run decides itself."""
    known = catalog(ctx)
    if known is None:
        return ""
    name = wish.parameter
    found = known.parameters.get(name)
    if found is None:
        return f"{name} {unknown(name, None, known)}"
    if overwritten({name: 1}) or not found.settable:
        return f"{name} is set by the run itself"
    values = [wish.value] if isinstance(wish, Use) else [wish.at_most, wish.at_least] if isinstance(wish, Bound) else []
    for value in values:
        whole = int(value) if isinstance(value, float) and value == int(value) else value
        if whole is not None and (wrong := refusal(name, whole) or complaint(found, whole, known)):
            return f"{name}: {whole} {wrong}" if wrong.startswith(("is ", "must ")) else f"{name}: {wrong}"
    return ""


def contradiction(wish: Use | Bound | Keep | Avoid, given: Sequence[Directive]) -> str:
    """Against wishes that are in force on the same parameter."""
    for directive in given:
        other = directive.wish
        if directive.state != "open" or getattr(other, "parameter", "") != wish.parameter:
            continue
        if clash(wish, other) or clash(other, wish):
            return f"directive {directive.id} says otherwise ({directive.said!r}): undo {directive.id} first"
    return ""


def clash(one: Wish, other: Wish) -> bool:
    """Whether a value that is asked for is not allowed by the other wish."""
    if not isinstance(one, Use):
        return False
    match other:
        case Bound():
            return within(other, one.value) is not None
        case Avoid():
            return same(one.value, other.value)
        case Keep():
            return True
    return False


def sources(ctx: Context, wish: Sources, given: Sequence[Directive]) -> str:
    """Against the run's data; something must be left to read."""
    if not ctx.run.setup.is_file():
        return ""
    datasets = ctx.bench.setup.datasets
    there = sources_of(datasets)
    for name in (*wish.only, *wish.never):
        if name not in there:
            close = closest(name, there)
            hint = f"did you mean {close}?" if close else f"there are {', '.join(there[:SHOWN])}"
            return f"no source is called {name!r}: {hint}"
    wishes = [wish, *(d.wish for d in given if d.state == "open" and d.id not in replaced(wish, given))]
    left = (allowed(wishes, name, file) for name, place in datasets.items() for file in files_of(place))
    return "" if any(left) else "with what was said before, no source would be left to train on"


def closest(name: str, there: Sequence[str]) -> str:
    """The source whose name, or whose file's name, is most like it; "" none."""
    called = {part: one for one in reversed(there) for part in (one, one.rpartition("/")[2].partition(".")[0])}
    found = difflib.get_close_matches(name, called, n=1)
    return called[found[0]] if found else ""


def limits(ctx: Context, wish: Extend) -> str:
    """Against limits that the run does not have."""
    spec = ctx.bench.spec
    if wish.seconds and spec.timeout is None and not wish.experiments:
        return "this run has no limit of time; `stop after this one` ends it"
    known = ((wish.tokens, spec.max_tokens, "tokens"), (wish.money, spec.max_cost, "money"))
    for asked, limit, name in (*known, (wish.gpu_hours, spec.max_gpu_hours, "GPU-hours")):
        if asked and limit is None:
            return f"this run has no limit of {name}"
    now = limits_of(ctx.run, spec)
    for line in lines(Amounts(gpu_hours=wish.gpu_hours, tokens=wish.tokens, money=wish.money), now):
        if line.spent < 0 and line.limit is not None and line.limit + line.spent <= 0:
            return f"{amount(line.kind, line.limit)} is all that there is; `stop after this one` ends the run"
    limit, done = experiments_limit(ctx.run, spec), len(load_journal(ctx.run).experiments)
    if wish.experiments and limit is None:
        return "this run has no limit of experiments; `stop after this one` ends it"
    if limit is not None and wish.experiments < 0 and limit + wish.experiments < done + 1:
        return f"{limit - done} of {limit} experiments are left; `stop after this one` ends the run"
    return ""


def replaced(wish: Wish, given: Sequence[Directive]) -> tuple[str, ...]:
    """Ids of the wishes in force that this one takes the place of."""
    return tuple(d.id for d in given if d.state == "open" and d.wish != wish and instead(wish, d.wish))


def instead(wish: Wish, before: Wish) -> bool:
    """Whether the new wish says anew what the earlier one said."""
    match wish, before:
        case (Use(parameter=name), Use(parameter=other)) | (Bound(parameter=name), Bound(parameter=other)):
            return name == other
        case Sources(), Sources():
            return (bool(wish.only) and bool(before.only)) or bool(set(wish.only) & set(before.never))
    return wish.kind == before.kind == "approve"
