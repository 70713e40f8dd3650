"""Tools and results as a model reads them: what only a program needs is left out, numbers are short."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tuneloop.core.quoting import defused

# A server checks arguments itself, and says what is wrong in words.
CHECKED = ("additionalProperties", "maxLength", "minLength", "maximum", "minimum", "title")
ROWS = 3  # objects from which on a table is shorter
NOTHING: tuple[Any, ...] = ("", [], {})


def told(result: Any) -> str:
    """A tool's result as text: compact JSON, fields without a value left out, objects alike as a table, numbers of four digits."""
    return defused(
        result if isinstance(result, str) else json.dumps(_short(result), ensure_ascii=False, separators=(",", ":"))
    )


def _short(value: Any) -> Any:
    match value:
        case float():
            return _number(value)
        case dict():
            return {name: _short(part) for name, part in value.items() if part not in NOTHING}
        case list():
            return _listed([_short(part) for part in value])
    return value


def _listed(parts: list[Any]) -> Any:
    """Many objects of the same fields as a table: each name is said once."""
    if len(parts) < ROWS or not all(isinstance(part, dict) and part for part in parts):
        return parts
    columns = list(dict.fromkeys(name for part in parts for name in part))
    if len(columns) > 2 * min(map(len, parts)):
        return parts
    return {"columns": columns, "rows": [[part.get(name, "") for name in columns] for part in parts]}


def _number(value: float) -> float | int:
    short = float(f"{value:.4g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def short(cards: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Tools in OpenAI's form with thin schemas; what several say of a parameter in the same words is said once."""
    known: set[tuple[str, str]] = set()
    return tuple({**card, "function": {**card["function"], "parameters": _once(card, known)}} for card in cards)


def _once(card: dict[str, Any], known: set[tuple[str, str]]) -> dict[str, Any]:
    schema = thin(card["function"].get("parameters", {}))
    for name, part in schema.get("properties", {}).items():
        said = (name, part.get("description", ""))
        if said in known:
            del part["description"]
        elif said[1]:
            known.add(said)
    return schema


def thin(schema: dict[str, Any]) -> dict[str, Any]:
    """A tool's schema without bounds; what may be left out may be null, and need not say so."""
    kept = {
        name: value
        for name, value in schema.items()
        if name not in CHECKED and not (name == "default" and value in (None, ""))
    }
    options = [option for option in kept.pop("anyOf", ()) if option != {"type": "null"}]
    if len(options) == 1:
        kept = {**options[0], **kept}
    elif options:
        kept["anyOf"] = [thin(option) for option in options]
    if "enum" in kept:
        kept.pop("type", None)
    if isinstance(kept.get("properties"), dict):
        kept["properties"] = {name: thin(part) for name, part in kept["properties"].items()}
    if isinstance(kept.get("items"), dict):
        kept["items"] = thin(kept["items"])
    return {name: value for name, value in kept.items() if name not in CHECKED}
