"""Whether a recipe keeps to the user's directives, and the nearest recipe that does; the same for every planner."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tuneloop.core.directive import Avoid, Bound, Keep, Lasting, Sources, Use
from tuneloop.core.experiment import Value

Values = dict[str, Value]
Constraint = Use | Bound | Keep | Avoid
METHOD, LORA, FULL, STEPS, EPOCHS = "finetuning_type", "lora", "full", "max_steps", "num_train_epochs"
OF_LORA = ("lora_", "use_dora", "use_rslora", "loraplus_", "pissa_")


@dataclass(frozen=True)
class Violation:
    """A value that breaks a constraint; `right`: the nearest allowed value, None: leave the parameter out."""

    constraint: Constraint
    parameter: str
    value: Value | None
    right: Value | None


def violations(commands: Iterable[Lasting], values: Mapping[str, Value], kept: Mapping[str, Value]) -> list[Violation]:
    """What a config breaks. `values` include the engine's defaults; `kept`: values of the best config that must stay."""
    found = (_violation(c, values, kept) for c in commands if isinstance(c, Constraint))
    return [violation for violation in found if violation is not None]


def _violation(c: Constraint, values: Mapping[str, Value], kept: Mapping[str, Value]) -> Violation | None:
    value = values.get(c.parameter) if is_effective(c.parameter, values) else None
    if isinstance(c, Use):
        right: Value | None = c.value
        return None if value is not None and same(value, c.value) else Violation(c, c.parameter, value, right)
    if value is None:
        return None
    match c:
        case Keep():
            right = kept.get(c.parameter)
            broken = right is not None and not same(value, right)
        case Avoid():
            right = alternative(c)
            broken = same(value, c.value)
        case Bound():
            right = nearest(c, value)
            broken = right is not None
    return Violation(c, c.parameter, value, right) if broken else None


def nearest(bound: Bound, value: Value) -> Value | None:
    """The nearest allowed value; None where this one is allowed, or is no number."""
    if isinstance(value, bool | str):
        return None
    end = next(
        (
            end
            for end, outside in (
                (bound.at_most, bound.at_most is not None and value > bound.at_most),
                (bound.at_least, bound.at_least is not None and value < bound.at_least),
            )
            if outside
        ),
        None,
    )
    if end is None or math.isclose(end, value, rel_tol=1e-9):
        return None
    return int(end) if isinstance(value, int) and end == int(end) else end


def alternative(avoid: Avoid) -> Value | None:
    """What to write in place of an avoided value; None: leave it out."""
    if isinstance(avoid.value, bool):
        return not avoid.value
    if avoid.parameter == METHOD:
        return FULL if same(avoid.value, LORA) else LORA
    return None


def is_effective(name: str, values: Mapping[str, Value]) -> bool:
    """Whether the engine uses the parameter: steps overrule epochs, LoRA's own parameters need LoRA."""
    stepwise = isinstance(steps := values.get(STEPS), int | float) and steps > 0
    if name in (STEPS, EPOCHS):
        return stepwise == (name == STEPS)
    return not (name.startswith(OF_LORA) and values.get(METHOD, LORA) != LORA)


def constrained(commands: Sequence[Lasting], values: Mapping[str, Value], kept: Mapping[str, Value]) -> Values:
    """The values with every constraint met; of two on the same parameter the newer wins."""
    found = dict(values)
    for command in commands:
        if isinstance(command, Use):
            found = with_use(found, command, commands)
    for violation in violations([c for c in commands if not isinstance(c, Use)], found, kept):
        if violation.right is None:
            found.pop(violation.parameter, None)
        else:
            found[violation.parameter] = violation.right
    return found


def with_use(values: Values, use: Use, commands: Sequence[Lasting]) -> Values:
    """The values with one more, and with what it needs to have an effect."""
    found = {**values, use.parameter: use.value}
    if use.parameter in (STEPS, EPOCHS):
        found.pop(EPOCHS if use.parameter == STEPS else STEPS, None)
    if use.parameter.startswith(OF_LORA) and not any(getattr(c, "parameter", "") == METHOD for c in commands):
        found[METHOD] = LORA
    return found


def epochs_violation(commands: Iterable[Lasting], epochs: float, steps: int) -> tuple[Bound, int] | None:
    """The bound on epochs that a plan in steps breaks, and the most (or fewest) steps that keep it.

    `epochs`: how often `steps` optimizer steps pass over the rows that were built.
    """
    for command in commands:
        if not (isinstance(command, Bound) and command.parameter == EPOCHS):
            continue
        if command.at_most is not None and epochs > command.at_most * (1 + 1e-9):
            return command, max(1, math.floor(steps * command.at_most / epochs))
        if command.at_least is not None and epochs < command.at_least * (1 - 1e-9):
            return command, math.ceil(steps * command.at_least / epochs)
    return None


def same(one: Value, other: Value) -> bool:
    """Whether two values are the same to the engine."""
    if isinstance(one, bool) or isinstance(other, bool):
        return str(one).lower() == str(other).lower()
    try:
        return math.isclose(float(one), float(other), rel_tol=1e-9)
    except ValueError:
        return str(one).strip().lower() == str(other).strip().lower()


def is_allowed(commands: Iterable[Lasting], dataset: str, file: str = "") -> bool:
    """Whether a dataset, or a file of it, may be read; a dataset may be where any of its files may."""
    return all(_is_allowed(command, dataset, file) for command in commands if isinstance(command, Sources))


def _is_allowed(sources: Sources, dataset: str, file: str) -> bool:
    name = f"{dataset}/{file}" if file else dataset
    if dataset in sources.never or name in sources.never:
        return False
    if not sources.only or dataset in sources.only or name in sources.only:
        return True
    return not file and any(source.startswith(f"{dataset}/") for source in sources.only)
