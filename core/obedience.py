"""Whether a recipe keeps to what the user wants, and the nearest one that does; the same for every planner."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tuneloop.core.directive import Avoid, Bound, Keep, Sources, Use, Wish
from tuneloop.core.experiment import Value

Values = dict[str, Value]
METHOD, LORA, FULL, STEPS, EPOCHS = "finetuning_type", "lora", "full", "max_steps", "num_train_epochs"
OF_LORA = ("lora_", "use_dora", "use_rslora", "loraplus_", "pissa_")


@dataclass(frozen=True)
class Breach:
    """A value that breaks a wish: what it is, and what would be right; None: leave it out."""

    wish: Wish
    parameter: str
    value: Value | None
    right: Value | None


def breaches(wishes: Iterable[Wish], values: Mapping[str, Value], kept: Mapping[str, Value]) -> list[Breach]:
    """What in a config is not as it was asked for. `values` hold the engine's defaults too; `kept`: of the best config."""
    found = (_breach(wish, values, kept) for wish in wishes if isinstance(wish, Use | Bound | Keep | Avoid))
    return [breach for breach in found if breach is not None]


def _breach(wish: Use | Bound | Keep | Avoid, values: Mapping[str, Value], kept: Mapping[str, Value]) -> Breach | None:
    name = wish.parameter
    value = values.get(name) if counts(name, values) else None
    match wish:
        case Use():
            return None if value is not None and same(value, wish.value) else Breach(wish, name, value, wish.value)
        case Keep():
            right = kept.get(name)
            if right is None or value is None or same(value, right):
                return None
            return Breach(wish, name, value, right)
        case Avoid():
            return Breach(wish, name, value, instead(wish)) if value is not None and same(value, wish.value) else None
        case Bound():
            return (
                Breach(wish, name, value, near)
                if value is not None and (near := within(wish, value)) is not None
                else None
            )


def within(bound: Bound, value: Value) -> Value | None:
    """The nearest value that is allowed; None where this one is, or is no number."""
    if isinstance(value, bool | str):
        return None
    ends = (bound.at_most if bound.at_most is not None and value > bound.at_most else None,
            bound.at_least if bound.at_least is not None and value < bound.at_least else None)  # fmt: skip
    end = next((end for end in ends if end is not None), None)
    if end is None or math.isclose(end, value, rel_tol=1e-9):
        return None
    whole = isinstance(value, int) and end == int(end)
    return int(end) if whole else end


def instead(wish: Avoid) -> Value | None:
    """What to write in place of what is not wanted; None: leave it out."""
    if isinstance(wish.value, bool):
        return not wish.value
    if wish.parameter == METHOD:
        return FULL if same(wish.value, LORA) else LORA
    return None


def counts(name: str, values: Mapping[str, Value]) -> bool:
    """Whether the engine looks at the parameter: steps overrule epochs, LoRA's own need LoRA."""
    stepwise = isinstance(steps := values.get(STEPS), int | float) and steps > 0
    if name in (STEPS, EPOCHS):
        return stepwise == (name == STEPS)
    return not (name.startswith(OF_LORA) and values.get(METHOD, LORA) != LORA)


def obeyed(wishes: Sequence[Wish], values: Mapping[str, Value], kept: Mapping[str, Value]) -> Values:
    """The values with what is asked for in place; what is asked for last wins."""
    found = dict(values)
    for wish in wishes:
        if isinstance(wish, Use):
            found = used(found, wish, wishes)
    for breach in breaches([w for w in wishes if not isinstance(w, Use)], found, kept):
        if breach.right is None:
            found.pop(breach.parameter, None)
        else:
            found[breach.parameter] = breach.right
    return found


def used(values: Values, wish: Use, wishes: Sequence[Wish]) -> Values:
    """With the value, and with what it needs in order to count."""
    found = {**values, wish.parameter: wish.value}
    if wish.parameter in (STEPS, EPOCHS):
        found.pop(EPOCHS if wish.parameter == STEPS else STEPS, None)
    if wish.parameter.startswith(OF_LORA) and not any(getattr(w, "parameter", "") == METHOD for w in wishes):
        found[METHOD] = LORA
    return found


def same(one: Value, other: Value) -> bool:
    """Whether two values are the same to the engine."""
    if isinstance(one, bool) or isinstance(other, bool):
        return str(one).lower() == str(other).lower()
    try:
        return math.isclose(float(one), float(other), rel_tol=1e-9)
    except ValueError:
        return str(one).strip().lower() == str(other).strip().lower()


def allowed(wishes: Iterable[Wish], dataset: str, file: str = "") -> bool:
    """Whether a data set, or a file of it, may be read; a data set may where any file of it may."""
    return all(_allowed(wish, dataset, file) for wish in wishes if isinstance(wish, Sources))


def _allowed(wish: Sources, dataset: str, file: str) -> bool:
    name = f"{dataset}/{file}" if file else dataset
    if dataset in wish.never or name in wish.never:
        return False
    if not wish.only or dataset in wish.only or name in wish.only:
        return True
    return not file and any(source.startswith(f"{dataset}/") for source in wish.only)
