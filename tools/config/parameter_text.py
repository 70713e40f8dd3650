"""Parameters in words: one line each for lists, whole cards for one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tuneloop.tools.config.catalog import Catalog, Parameter
from tuneloop.tools.config.finding import choices_text
from tuneloop.tools.config.value_check import RANGES

NOT_TEXT = ("yes", "no", "on", "off", "true", "false", "null", "~", "")  # what YAML reads bare words as


def as_yaml(value: Any) -> str:
    """A value as train.yaml writes it."""
    if isinstance(value, float):
        mantissa, _, exponent = repr(value).partition("e")
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}" if exponent else repr(value)
    plain = isinstance(value, str) and value.lower() not in NOT_TEXT
    return str(value) if plain else json.dumps(value, ensure_ascii=False)


def settings(values: Mapping[str, Any]) -> str:
    """Lines of train.yaml in a sentence."""
    return ", ".join(f"`{key}: {as_yaml(value)}`" for key, value in values.items())


def plain_default(p: Parameter) -> str:
    """A default for people."""
    return "none" if p.default is None else str(p.default).lower() if isinstance(p.default, bool) else str(p.default)


def usual(p: Parameter) -> str:
    """Usual values, "" where nothing is known."""
    return RANGES[p.name].usual if p.name in RANGES else ""


def line(p: Parameter) -> str:
    """Name, type, default and the whole help on one line."""
    return f"- `{p.name}` ({p.type}, default {plain_default(p)}): {' '.join(p.help.split())}"


def card(p: Parameter) -> str:
    """Everything known of one parameter."""
    lines = [f"### `{p.name}`", " ".join(p.help.split()), "", f"- type: {p.type}", f"- default: {plain_default(p)}"]
    if p.choices:
        lines.append(f"- choices: {choices_text(p.choices, most=60)}")
    if usual(p):
        lines.append(f"- usual: {usual(p)}")
    if not p.settable:
        lines.append("- set by the engine: leave it out")
    return "\n".join([*lines, f"- class: {p.owner}, {p.source}"])


def lines(catalog: Catalog, names: Iterable[str]) -> str:
    """One line each."""
    return "\n".join(line(catalog.parameters[name]) for name in names)


def listed(names: Iterable[str]) -> str:
    """Names in a row."""
    return ", ".join(f"`{name}`" for name in names) or "none"
