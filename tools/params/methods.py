"""Compares values of one decision: what each one means, which parameters only it has, and what they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuneloop.core.errors import ToolError
from tuneloop.tools.params.catalog import Catalog
from tuneloop.tools.params.dimensions import BY_NAME, DIMENSIONS
from tuneloop.tools.params.filtering import filter_parameters


@dataclass(frozen=True)
class Side:
    """One value: `own` are the parameters that the others do not need."""

    dimension: str
    value: str
    meaning: str
    own: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """The sides in the order asked, and what all of them keep."""

    sides: tuple[Side, ...]
    shared: tuple[str, ...]


def compare_methods(catalog: Catalog, values: Sequence[tuple[str, str]]) -> Comparison:
    """Two or more (dimension, value); others stay at their default. Raises ToolError for fewer than two."""
    if len(set(values)) < 2:
        raise ToolError(f"two different values are compared, e.g. lora and freeze; there are {all_values()}")
    kept = [[k.parameter.name for k in filter_parameters(catalog, {d: v}) if k.needed] for d, v in values]
    sides = []
    for (dimension, value), names in zip(values, kept, strict=True):
        others = {name for other in kept if other is not names for name in other}
        own = tuple(name for name in names if name not in others)
        sides.append(Side(dimension, value, BY_NAME[dimension].value(value).meaning, own))
    shared = tuple(name for name in kept[0] if all(name in names for names in kept))
    return Comparison(tuple(sides), shared)


def value_named(text: str) -> tuple[str, str]:
    """The (dimension, value) that a word names, `quantization=none` where `none` alone would be unclear.

    Raises ToolError that lists the values.
    """
    dimension, _, value = text.strip().lower().rpartition("=")
    found = [
        (d.name, value.strip()) for d in DIMENSIONS if value.strip() in d.names and dimension.strip() in ("", d.name)
    ]
    if len(found) != 1:
        raise ToolError(f"no value {text!r}; right is one of {all_values()}")
    return found[0]


def all_values() -> str:
    """Every dimension with its values."""
    return "; ".join(f"{d.name}: {', '.join(d.names)}" for d in DIMENSIONS)
