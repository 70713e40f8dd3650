"""Whether a command can be carried out: checked against engine, device, packages, data, limits and open directives."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import yaml

from tuneloop.core.budget import Amounts, format_amount, spending_lines
from tuneloop.core.constraints import (
    EPOCHS,
    STEPS,
    Constraint,
    Values,
    constrained,
    is_allowed,
    nearest,
    same,
    violations,
)
from tuneloop.core.directive import (
    Approve,
    Avoid,
    Bound,
    Directive,
    Extend,
    Keep,
    Lasting,
    Sources,
    Use,
    describe,
)
from tuneloop.graph.budget.limits import experiments_limit
from tuneloop.graph.context import Context
from tuneloop.graph.steering.compliance import catalog, config_values, kept_values
from tuneloop.tools.budget.limits import current_limits as limits_of
from tuneloop.tools.config.aliases import alias_of
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.check import check_config
from tuneloop.tools.config.finalize import overwritten_keys, refused_key
from tuneloop.tools.config.model_card import read_model_card
from tuneloop.tools.config.names import unknown_key
from tuneloop.tools.config.value_check import value_problem
from tuneloop.tools.data_script.data_view import dataset_files, source_names
from tuneloop.tools.runs.journal import load_journal

SHOWN = 8  # names in a message
ENDS_RUN = "`finish` ends the run"


def canonical(ctx: Context, command: Lasting) -> Lasting:
    """The command with aliases replaced by the parameter's name in the installed release."""
    if not isinstance(command, Constraint):
        return command
    known = catalog(ctx)
    alias = alias_of(command.parameter.lower())
    if known is None or command.parameter in known.parameters or alias is None or alias.is_method:
        return command
    return command.model_copy(update={"parameter": alias.parameter})


def objection(ctx: Context, command: Lasting, given: Sequence[Directive]) -> str:
    """Why the command cannot be carried out, and what would be right; "" where it can.

    `given`: the directives so far.
    """
    if ctx.run.report_json.is_file() or (ctx.run.final.is_dir() and isinstance(command, Extend)):
        again = f"`tuneloop fork {ctx.run.id} --at N` goes on from any of its experiments"
        return f"the run is over; {again if ctx.run_tools.spec.evaluated else 'right is another run'}"
    match command:
        case Use() | Bound() | Keep() | Avoid():
            return _parameter(ctx, command) or _combination(ctx, command, given)
        case Sources():
            return _sources(ctx, command, given)
        case Extend():
            return _limits(ctx, command)
    return ""


def _parameter(ctx: Context, command: Constraint) -> str:
    """Against the installed release and what the run sets itself."""
    known = catalog(ctx)
    if known is None:
        return ""
    name = command.parameter
    found = known.parameters.get(name)
    if found is None:
        return f"{name} {unknown_key(name, None, known)}"
    if overwritten_keys({name: 1}) or not found.settable:
        return f"{name} is set by the run itself"
    ends = (command.at_most, command.at_least) if isinstance(command, Bound) else ()
    values = (command.value,) if isinstance(command, Use | Avoid) else ends
    for value in values:
        whole = int(value) if isinstance(value, float) and value == int(value) else value
        refused = isinstance(command, Use) and refused_key(name, whole)
        if whole is not None and (wrong := refused or value_problem(found, whole, known)):
            return f"{name}: {whole} {wrong}" if wrong.startswith(("is ", "must ")) else f"{name}: {wrong}"
    return ""


def _combination(ctx: Context, command: Constraint, given: Sequence[Directive]) -> str:
    """Against device, packages and the other directives: errors that the config has only with this command."""
    known = catalog(ctx)
    if known is None or not isinstance(command, Use):
        return ""
    over = replaced(command, given)
    others = [d.command for d in given if d.state == "open" and d.id not in over]
    best = load_journal(ctx.run).best
    base = config_values(ctx.run, best.number) if best else {}
    kept = kept_values(ctx)
    values = constrained([*others, command], base, kept)
    if violations([command], values, kept):
        others_text = ", ".join(describe(other) for other in others if isinstance(other, Constraint))
        return f"{command.parameter} has no effect beside {others_text}; `revoke` takes a directive back"
    before = _errors(ctx, known, constrained(others, base, kept))
    return next((text for text in _errors(ctx, known, values) if text not in before), "")


def _errors(ctx: Context, known: Catalog, values: Values) -> list[str]:
    """Errors of a config with these values, without their lines. Before `prepare`, model and device are not known."""
    setup = ctx.run_tools.setup if ctx.run.setup.is_file() else None
    card = read_model_card(setup.model_root) if setup else None
    found = check_config(yaml.safe_dump(values), known, card, setup.device if setup else "cuda")
    return [f"{f.key}: {f.text}" for f in found if f.level == "error"]


def clash(one: Lasting, other: Lasting) -> bool:
    """Whether a value that is asked for is not allowed by the other command."""
    if not isinstance(one, Use):
        return False
    match other:
        case Bound():
            return nearest(other, one.value) is not None
        case Avoid():
            return same(one.value, other.value)
    return isinstance(other, Keep)


def _sources(ctx: Context, command: Sources, given: Sequence[Directive]) -> str:
    """Against the run's data; something must be left to read."""
    if not ctx.run.setup.is_file():
        return ""
    datasets = ctx.run_tools.setup.datasets
    there = source_names(datasets)
    for name in (*command.only, *command.never):
        if name not in there:
            close = _closest(name, there)
            hint = f"did you mean {close}?" if close else f"there are {', '.join(there[:SHOWN]) or 'none'}"
            return f"no source is called {name!r}: {hint}"
    over = replaced(command, given)
    commands = [command, *(d.command for d in given if d.state == "open" and d.id not in over)]
    left = (is_allowed(commands, name, file) for name, place in datasets.items() for file in dataset_files(place))
    return "" if any(left) else "with the other directives, no source would be left to train on"


def _closest(name: str, there: Sequence[str]) -> str:
    """The source with the most similar name or file name; "" when none is similar."""
    called = {part: one for one in reversed(there) for part in (one, one.rpartition("/")[2].partition(".")[0])}
    found = difflib.get_close_matches(name, called, n=1)
    return called[found[0]] if found else ""


def _limits(ctx: Context, command: Extend) -> str:
    """Against limits that the run does not have."""
    spec = ctx.run_tools.spec
    limit, done = experiments_limit(ctx.run, spec), len(load_journal(ctx.run).experiments)
    if command.experiments and not spec.evaluated:
        return "this run evaluates nothing, so that a second experiment could not be compared with the first"
    asked = (
        (command.seconds, spec.timeout, "time"),
        (command.tokens, spec.max_tokens, "tokens"),
        (command.money, spec.max_cost, "money"),
        (command.gpu_hours, spec.max_gpu_hours, "GPU-hours"),
        (command.experiments, limit, "experiments"),
    )
    for value, had, name in asked:
        if value and had is None:
            return f"this run has no limit of {name}; {ENDS_RUN}"
    more = Amounts(seconds=command.seconds, gpu_hours=command.gpu_hours, tokens=command.tokens, money=command.money)
    for line in spending_lines(more, limits_of(ctx.run, spec)):
        if line.spent < 0 and line.limit is not None and line.limit + line.spent <= 0:
            return f"{format_amount(line.kind, line.limit)} is all that there is; {ENDS_RUN}"
    if limit is not None and command.experiments < 0 and limit + command.experiments < done + 1:
        return f"{limit - done} of {limit} experiments are left; {ENDS_RUN}"
    return ""


def replaced(command: Lasting, given: Sequence[Directive]) -> tuple[str, ...]:
    """Ids of the open directives that this command replaces."""
    return tuple(d.id for d in given if d.state == "open" and d.command != command and _replaces(command, d.command))


def _replaces(command: Lasting, before: Lasting) -> bool:
    """Whether the new command contradicts or repeats the earlier one."""
    match command, before:
        case Use(), Use():
            return command.parameter == before.parameter or {command.parameter, before.parameter} == {STEPS, EPOCHS}
        case Bound(), Bound():
            return command.parameter == before.parameter
        case Sources(), Sources():
            return (bool(command.only) and bool(before.only)) or bool(set(command.only) & set(before.never))
    if isinstance(command, Constraint) and isinstance(before, Constraint) and command.parameter == before.parameter:
        return clash(command, before) or clash(before, command) or Keep in (type(command), type(before))
    return isinstance(command, Approve) and isinstance(before, Approve)
