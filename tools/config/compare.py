"""Compares methods, values and parameters: what turns each side on, what only it needs, and what all sides share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tuneloop.core.errors import ToolError
from tuneloop.tools.config.aliases import Alias, alias_of, squash
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.decision_filter import filter_parameters
from tuneloop.tools.config.decisions import (
    BY_NAME,
    DIMENSIONS,
    check_decisions,
    decision_lines,
    decision_named,
    method_named,
)
from tuneloop.tools.config.parameter_text import as_yaml, lines, listed, settings
from tuneloop.tools.config.search import having_choice, squashed_names

MOST_SIDES, MOST_SHARED = 4, 12
COMPARE = re.compile(r"compare (.+)", re.IGNORECASE)
VERSUS = re.compile(r" (?:vs\.?|versus) ", re.IGNORECASE)
JOINED = re.compile(r" (?:vs\.?|versus|and|with|to|or) | ?, ?(?:and |or )?", re.IGNORECASE)
# Words around a side that add nothing: `the freeze fine-tuning parameters`.
LAST = r"(?:fine[- ]?)?tuning|training|parameters?|params|methods?|settings?|optimizers?"
NOISE = re.compile(rf"^(?:the|using|use)\s|[\s?.!]+$|(?:^|\s)(?:{LAST})$", re.IGNORECASE)


@dataclass(frozen=True)
class Side:
    """`switch`: the parameters that turn it on, the telling one first; `writes`: lines of train.yaml that do so.

    `own`: parameters that the other sides do not need.
    """

    name: str
    switch: tuple[str, ...]
    writes: Mapping[str, Any] = field(default_factory=dict)
    decisions: Mapping[str, str] = field(default_factory=dict)
    own: tuple[str, ...] = ()

    @property
    def meaning(self) -> str:
        """Its decisions in words."""
        return "; ".join(f"{key} {value}: {BY_NAME[key].value(value).meaning}" for key, value in self.decisions.items())


@dataclass(frozen=True)
class Comparison:
    """The sides in the order asked, and the parameters that all of them need."""

    sides: tuple[Side, ...]
    shared: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Switches first, then what each side has of its own."""
        switches = (name for side in self.sides for name in side.switch)
        return tuple(dict.fromkeys([*switches, *(name for side in self.sides for name in side.own)]))


def sides_of(text: str) -> list[str]:
    """The sides of `compare A vs B` or `A vs B`; [] for any other text."""
    plain = " ".join(text.split())
    asked = COMPARE.fullmatch(plain)
    parts = (JOINED if asked else VERSUS).split(asked[1] if asked else plain)
    return [part.strip() for part in parts if part.strip()] if len(parts) > 1 else []


def compare(catalog: Catalog, names: Sequence[str]) -> Comparison:
    """Two to four methods, values of decisions, choices or parameters. Raises ToolError for one that is unknown."""
    known = _sides(names, catalog) if len(names) <= MOST_SIDES else []
    sides = list({side.name.lower(): side for side in known}.values())
    if len(sides) < 2:
        right = f"2 to {MOST_SIDES} different sides are compared, e.g. lora and freeze"
        raise ToolError(f"{right}; there are {all_values()}")
    whole = all(side.decisions for side in sides)  # a parameter by itself needs no others
    needed = [_needed(catalog, side) if whole else [] for side in sides]
    found = []
    for side, mine in zip(sides, needed, strict=True):
        others = {name for other in needed if other is not mine for name in other}
        own = tuple(name for name in mine if name not in others and name not in side.switch)
        found.append(Side(side.name, side.switch, side.writes, side.decisions, own))
    shared = tuple(name for name in needed[0] if all(name in other for other in needed))
    return Comparison(tuple(found), shared)


def _needed(catalog: Catalog, side: Side) -> list[str]:
    return [k.parameter.name for k in filter_parameters(catalog, side.decisions) if k.needed]


def _sides(names: Sequence[str], catalog: Catalog) -> list[Side]:
    """What the names stand for; where not all are known by themselves, values of one parameter: cosine and linear."""
    plain = [_plain(name, catalog) for name in names]
    sides = [_named(name, catalog) for name in plain]
    having = [having_choice(name, catalog) for name in plain]
    common = [key for key in having[0] if all(key in other for other in having)] if having else []
    if None in sides and len(common) == 1:
        return [Side(name, (common[0],), {common[0]: name.lower()}) for name in plain]
    found = []
    for name, side, keys in zip(plain, sides, having, strict=True):
        if side is None and len(keys) != 1:
            right = f"right is a parameter, a method such as qlora, or {all_values()}"
            raise ToolError(f"nothing is called {name!r}; {right}")
        found.append(side or Side(name, (keys[0],), {keys[0]: name.lower()}))
    return found


def _plain(text: str, catalog: Catalog) -> str:
    """A side without words around it that add nothing."""
    plain = text.strip(" \t\n?.!")
    while _named(plain, catalog) is None and (shorter := NOISE.sub("", plain, count=1).strip()) != plain:
        plain = shorter
    return plain


def _named(text: str, catalog: Catalog) -> Side | None:
    """A method or decision, or a parameter by any of its names."""
    dimension, _, value = text.rpartition("=")
    if dimension and (key := decision_named(dimension)):
        made = check_decisions({key: value})
        return _of_method(text, Alias("", made, decision_lines({key: value})))
    if method := method_named(text):
        return _of_method(text, method)
    alias = alias_of(text)
    own = squashed_names(catalog).get(squash(text)) or (alias.parameter if alias else None)
    return Side(own, (own,)) if own and own in catalog.parameters else None


def _of_method(name: str, method: Alias) -> Side:
    written = {**decision_lines(method.decisions), **method.writes}
    switch = sorted(written, key=lambda key: key != method.parameter)
    return Side(name, tuple(switch), {key: written[key] for key in switch}, method.decisions)


def comparison_text(found: Comparison, catalog: Catalog) -> str:
    """The comparison in Markdown."""
    parts = []
    for side in found.sides:
        switch = f": {settings(side.writes)}" if side.writes else ": nothing to write" if side.decisions else ""
        head = f"**{side.name}**{switch}" + (f" ({side.meaning})" if side.meaning else "")
        rows = [head, *(f"Refused here: {reason}" for reason in refused(side.writes, catalog))]
        rows += [lines(catalog, side.switch)] if side.switch else []
        rows += ["Its own parameters:", lines(catalog, side.own)] if side.own else []
        parts.append("\n".join(rows))
    more = f" and {len(found.shared) - MOST_SHARED} more" if len(found.shared) > MOST_SHARED else ""
    parts += [f"Shared: {listed(found.shared[:MOST_SHARED])}{more}"] if found.shared else []
    return "\n\n".join(parts)


def refused(written: Mapping[str, Any], catalog: Catalog) -> list[str]:
    """Why `params check` refuses the lines that turn a side on: a package that the engine lacks, a combination."""
    from tuneloop.tools.config.check import check_config  # only comparisons need the rules

    text = "".join(f"{key}: {as_yaml(value)}\n" for key, value in written.items())
    found = check_config(text, catalog, None, "cuda", profile="engine") if written else []
    return [f"{f.key} {f.text}" for f in found if f.level == "error" and f.key in written]


def all_values() -> str:
    """Every decision with its values."""
    return "; ".join(f"{d.name}: {', '.join(d.names)}" for d in DIMENSIONS)
