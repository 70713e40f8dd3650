"""The decision filter: the few parameters that a combination of the eight decisions needs, each with its category.

`guidance` says how to decide: the decisions, the parameter classes that each brings in, what a combination keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tuneloop.tools.config.catalog import Catalog, Parameter
from tuneloop.tools.config.decisions import (
    DIMENSIONS,
    check_decisions,
    complete_decisions,
    decision_conflicts,
    decision_lines,
)
from tuneloop.tools.config.relevance import DETAILS, GROUPS, MOST, Group

WRITTEN = "turns on the method that was named"
USEFUL = 1 + len(DETAILS)
NEW = Group("new in this release: no rule sets it aside", weight="useful")


@dataclass(frozen=True)
class Kept:
    """One parameter of a combination, why it is there, and its place where there is no room for all: 0 always stays."""

    parameter: Parameter
    why: str
    rank: int

    @property
    def needed(self) -> bool:
        """Whether the decisions bring it in."""
        return self.rank < USEFUL


def filter_parameters(catalog: Catalog, decisions: Mapping[str, str]) -> list[Kept]:
    """What the decisions need, then what is useful, in the table's order; undecided dimensions take their default.

    At most 70: what is useful goes first, then details. Raises ToolError for an unknown decision.
    """
    found = {k.parameter.name: k for k in _kept(catalog, tuple(complete_decisions(decisions).items()))}
    written = [name for name in decision_lines(decisions) if name in catalog.parameters and name not in found]
    kept = [*(Kept(catalog.parameters[name], WRITTEN, rank=0) for name in written), *found.values()]
    room = {k.parameter.name for k in sorted(kept, key=lambda k: k.rank)[: max(MOST, sum(k.rank == 0 for k in kept))]}
    return [k for k in kept if k.parameter.name in room]


@lru_cache(maxsize=512)
def _kept(catalog: Catalog, decisions: tuple[tuple[str, str], ...]) -> tuple[Kept, ...]:
    wanted, found = dict(decisions), dict[str, Kept]()
    for weight in ("needed", "useful"):
        for group, kept in _table(catalog):
            if group.weight == weight and holds(group, wanted):
                for k in kept:
                    found.setdefault(k.parameter.name, k)
    return tuple(found.values())


@lru_cache(maxsize=8)
def _table(catalog: Catalog) -> tuple[tuple[Group, tuple[Kept, ...]], ...]:
    """Every group with its parameters in this release; what no group knows comes first among the useful."""
    known = [(NEW, unclassified(catalog)), *((group, list(members(catalog, group))) for group in GROUPS)]

    def rank(group: Group, name: str) -> int:
        if group.weight != "needed":
            return USEFUL
        return 1 + DETAILS.index(name) if name in DETAILS else 0

    return tuple(
        (group, tuple(Kept(catalog.parameters[name], group.why, rank(group, name)) for name in names))
        for group, names in known
    )


def holds(group: Group, decisions: Mapping[str, str]) -> bool:
    """Whether the decisions fulfil the group's conditions."""
    return all(decisions[name] in values for name, values in group.when.items())


def members(catalog: Catalog, group: Group) -> Iterator[str]:
    """Names of a group's settable parameters that this release has."""
    yield from (name for name in group.names if name in catalog.parameters and catalog.parameters[name].settable)
    for p in catalog.parameters.values():
        if p.owner in group.owners and p.settable and (not group.starts or p.name.startswith(group.starts)):
            yield p.name


def unclassified(catalog: Catalog) -> list[str]:
    """Settable parameters that no group of the table knows."""
    known = {name for group in GROUPS for name in members(catalog, group)}
    return [p.name for p in catalog.parameters.values() if p.settable and p.name not in known]


def why_not(catalog: Catalog, name: str, decisions: Mapping[str, str]) -> str:
    """Why a combination leaves a parameter out: the condition that does not hold, or what the parameter is for."""
    wanted = complete_decisions(decisions)
    groups = [group for group, kept in _table(catalog) if any(k.parameter.name == name for k in kept)]
    for group in groups:
        missing = [f"{key} {' or '.join(values)}" for key, values in group.when.items() if wanted[key] not in values]
        if missing and group.weight != "aside":
            return f"{group.why}: for {', '.join(missing)}"
    return next((group.why for group in groups if group.weight == "aside"), groups[0].why if groups else NEW.why)


def guidance(catalog: Catalog, decisions: Mapping[str, str]) -> dict[str, Any]:
    """The decisions with their values; with some made, the parameters they keep and why. Raises ToolError."""
    found: dict[str, Any] = {
        "decisions": {
            d.name: {"question": d.question, "values": {v.name: v.meaning for v in d.values}} for d in DIMENSIONS
        },
        "decision_map": decision_map(),
        "core": core_parameters(catalog),
        "total": len(catalog.parameters),
    }
    if not decisions:
        return found | {"next": "call again with the decisions made, e.g. stage=sft, method=lora, quantization=4bit"}
    kept, made = filter_parameters(catalog, decisions), check_decisions(decisions)
    return found | {
        "decided": made,
        "assumed": {k: v for k, v in complete_decisions(made).items() if k not in made},
        "refused_by_the_engine": decision_conflicts(decisions),
        "writes": decision_lines(decisions),
        "kept": len(kept),
        "parameters": {k.parameter.name: k.why for k in kept},
    }


def decision_map() -> dict[str, list[str]]:
    """Value of a decision → parameter classes that it brings in."""
    found: dict[str, list[str]] = {}
    for group in GROUPS:
        for value in (value for values in group.when.values() for value in values) if group.owners else ():
            found.setdefault(value, []).extend(group.owners)
    return found


def core_parameters(catalog: Catalog) -> list[str]:
    """What every combination keeps."""
    names = [name for group in GROUPS if group.weight == "needed" and not group.when for name in group.names]
    return [name for name in names if name in catalog.parameters]
