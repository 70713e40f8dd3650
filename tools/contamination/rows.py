"""A training row as its texts, whatever its fields are called and however deep they lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

DEEPEST = 40


def texts_of(value: Any, depth: int = 0) -> Iterator[str]:
    """Every text and number in a JSON value, in order; JSON written inside a text is opened."""
    if isinstance(value, str):
        inner = _opened(value) if depth < DEEPEST else None
        if inner is None:
            yield value
        else:
            yield from texts_of(inner, depth + 1)
    elif isinstance(value, dict | list | tuple):
        if depth < DEEPEST:
            for part in value.values() if isinstance(value, dict) else value:
                yield from texts_of(part, depth + 1)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _opened(text: str) -> Any:
    bare = text.strip()
    if len(bare) < 2 or bare[0] + bare[-1] not in ("{}", "[]"):
        return None
    try:
        found = orjson.loads(bare)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict | list) else None
