"""Answers `params ask` without a model: decisions as `key: value`, `compare A vs B`, or a search for anything else."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tuneloop.core.errors import ToolError
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.compare import compare, comparison_text, sides_of
from tuneloop.tools.config.decision_filter import Kept, filter_parameters
from tuneloop.tools.config.decisions import (
    BY_NAME,
    check_decisions,
    complete_decisions,
    decision_conflicts,
    decision_named,
    method_named,
)
from tuneloop.tools.config.parameter_text import card, line, lines
from tuneloop.tools.config.search import exact_names, search

LONGEST = 4000
# `key: value` or `key=value` as a line, an item of a list, or a part between commas.
PAIR = re.compile(
    r"(?:^(?:[ \t]*[-*])?|[,;:{])[ \t]*[\"'`]?([A-Za-z][\w -]*?)[\"'`]?[ \t]*[:=][ \t]*([^,;:={}\n]+?)[ \t]*(?=[,;}\n]|$)",
    re.MULTILINE,
)
# Values of decisions that are words of every day.
PLAIN_WORDS = frozenset(("none", "standard", "full", "freeze", "single", "normal", "text", "mod", "adam", "adamw"))
NOTHING = (
    "No parameter fits. Ask with a parameter's name, with words of its help (`gradient clipping`), with decisions "
    "(`method: lora, quantization: 4bit`), or `compare lora vs freeze`."
)


@dataclass(frozen=True)
class Answer:
    """`names`: the parameters shown, best first; `exact`: those among them that the question names itself."""

    kind: Literal["decisions", "comparison", "search", "nothing"]
    text: str
    names: tuple[str, ...] = ()
    exact: tuple[str, ...] = ()
    decisions: Mapping[str, str] = field(default_factory=dict)

    @property
    def plain(self) -> dict[str, Any]:
        """As JSON."""
        lists = {"names": list(self.names), "exact": list(self.exact)}
        return {"kind": self.kind, **lists, "decisions": dict(self.decisions), "answer": self.text}


def answer(text: str, catalog: Catalog) -> Answer:
    """The answer to a question. Raises ToolError for a decision with an unknown value."""
    asked = text[:LONGEST]
    if decisions := decisions_in(asked):
        return _decisions(decisions, catalog)
    if sides := sides_of(asked):
        try:
            found = compare(catalog, sides)
        except ToolError:  # a side that is no name: its words are looked up
            return _search(asked, catalog)
        return Answer("comparison", comparison_text(found, catalog), found.names)
    return _search(asked, catalog)


def decisions_in(text: str) -> dict[str, str]:
    """The decisions that a text writes as `key: value` or `key=value`; {} where it has none."""
    found: dict[str, str] = {}
    for key, said in PAIR.findall(text):
        misspelt = difflib.get_close_matches(key.lower(), BY_NAME, n=1, cutoff=0.8)
        value = said.strip(" \t\"'`.")
        if value and (name := decision_named(key) or (key if misspelt else None)):  # the filter refuses a misspelt one
            found[name] = value
    return found


def _decisions(given: Mapping[str, str], catalog: Catalog) -> Answer:
    kept, made = filter_parameters(catalog, given), check_decisions(given)
    said = ", ".join(f"{key} {value} ({BY_NAME[key].value(value).meaning})" for key, value in made.items())
    assumed = ", ".join(f"{key} {value}" for key, value in complete_decisions(made).items() if key not in made)
    head = [f"{len(kept)} of {len(catalog.parameters)} parameters for {said or ', '.join(given.values())}."]
    head += [f"Assumed: {assumed}."] if assumed else []
    head += [f"The engine refuses this combination: {reason}." for reason in decision_conflicts(made)]
    names = tuple(k.parameter.name for k in kept)
    return Answer("decisions", "\n".join(head) + "\n\n" + by_category(kept), names, decisions=made)


def by_category(kept: list[Kept]) -> str:
    """Parameters as lines, grouped by category."""
    found: dict[str, list[str]] = {}
    for k in kept:
        found.setdefault(k.why, []).append(line(k.parameter))
    return "\n\n".join(f"**{category}**\n" + "\n".join(rows) for category, rows in found.items())


def _search(text: str, catalog: Catalog) -> Answer:
    names = search(text, catalog)
    if not names:
        return Answer("nothing", NOTHING)
    exact = tuple(dict.fromkeys(name for name, _ in exact_names(text, catalog)))[: len(names)]
    found = card(catalog.parameters[names[0]]) if len(names) == 1 else lines(catalog, names)
    setup = ", ".join(f"{key}: {value}" for key, value in setup_of(text).items())
    hint = f"\n\nAll parameters of this setup: ask `{setup}`" if setup and len(names) > 1 else ""
    return Answer("search", found + hint, tuple(names), exact)


def setup_of(text: str) -> dict[str, str]:
    """The decisions whose values a text names; words that have other meanings do not count."""
    words = (word for word in re.findall(r"[\w+-]+", text.lower()) if word not in PLAIN_WORDS)
    return {key: value for word in words if (m := method_named(word)) for key, value in m.decisions.items()}
