"""Tools and results as a model reads them: what only a program needs is left out, numbers are short."""

from __future__ import annotations

import json
from typing import Any

from tuneloop.core.quoting import defused

# A server checks arguments itself, and says what is wrong in words.
CHECKED = ("additionalProperties", "maxLength", "minLength", "maximum", "minimum", "title")
NOTHING: tuple[Any, ...] = ("", [], {})


def told(result: Any) -> str:
    """A tool's result as text: compact JSON, fields without a value left out, numbers to four digits."""
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
            return [_short(part) for part in value]
    return value


def _number(value: float) -> float | int:
    short = float(f"{value:.4g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


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
