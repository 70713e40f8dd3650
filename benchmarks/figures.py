"""The registry of figures: one function each, registered by name with its unit and goal; and the rows made of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from place import Place

Measure = Callable[[Place], float]
RELATIONS = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


class SkippedError(Exception):
    """A figure that this machine cannot measure, and why; it costs the other figures nothing."""


@dataclass(frozen=True)
class Figure:
    """`goal` is a relation and a number, `<= 0.15`; `by_default` false: only with --only, because it takes long."""

    name: str
    unit: str
    goal: str
    measure: Measure
    group: str
    by_default: bool = True

    def reached(self, value: float) -> bool:
        """Whether `value` is as good as the goal."""
        relation, number = self.goal.split()
        return math.isfinite(value) and bool(RELATIONS[relation](value, float(number)))


FIGURES: dict[str, Figure] = {}


def figure(name: str, unit: str, goal: str, *, by_default: bool = True) -> Callable[[Measure], Measure]:
    """Register a function that measures one figure; its module's name is the group it can be chosen by."""

    def register(measure: Measure) -> Measure:
        if name in FIGURES:
            raise ValueError(f"two figures are called {name!r}")
        FIGURES[name] = Figure(name, unit, goal, measure, measure.__module__, by_default)
        return measure

    return register


def chosen(only: tuple[str, ...]) -> list[Figure]:
    """Figures by group, or by any part of their name; all of the default without `only`. Raises LookupError."""
    if not only:
        return [f for f in FIGURES.values() if f.by_default]
    for word in only:
        if not any(fits(f, word) for f in FIGURES.values()):
            groups = ", ".join(dict.fromkeys(f.group for f in FIGURES.values()))
            raise LookupError(f"no figure is called {word!r}; groups are {groups}")
    return [f for f in FIGURES.values() if any(fits(f, word) for word in only)]


def fits(one: Figure, word: str) -> bool:
    """Whether `word` means this figure."""
    return word == one.group or word.lower() in one.name.lower()


def row(one: Figure, value: float | None, skipped: str = "") -> dict[str, Any]:
    """The form of `results.json`; a figure that could not be measured has no value, a skipped one says why."""
    good = value is not None and one.reached(value)
    shown = None if value is None else float(f"{value:.4g}")
    why = {"skipped": skipped} if skipped else {}
    return {"name": one.name, "value": shown, "unit": one.unit, "goal": one.goal, "ok": good, **why}


def table(rows: list[dict[str, Any]]) -> str:
    """The rows for people."""
    width = max(len(r["name"]) for r in rows)
    lines = []
    for r in rows:
        if "skipped" in r:
            lines.append(f"{r['name']:<{width}}  {'-':>9} {r['unit']:<10} {r['goal']:>9}  skipped: {r['skipped']}")
            continue
        value = "failed" if r["value"] is None else f"{r['value']:g}"
        lines.append(
            f"{r['name']:<{width}}  {value:>9} {r['unit']:<10} {r['goal']:>9}  {'ok' if r['ok'] else 'missed'}"
        )
    return "\n".join(lines)
