"""How to decide: the eight decisions, the parameter classes each one brings in, and what a combination keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.decision_filter import filter_parameters
from tuneloop.tools.config.decisions import (
    DIMENSIONS,
    check_decisions,
    complete_decisions,
    decision_conflicts,
    decision_lines,
)
from tuneloop.tools.config.relevance import GROUPS


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
