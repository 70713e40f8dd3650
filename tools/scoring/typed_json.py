"""Python's plain values as JSON and back, each with its type; standard library only, engines load this file by path.

Numbers, texts, truth values, None and lists are themselves; anything else is an object of one letter: `t` tuple, `s` set,
`f` frozen set, `d` dictionary (pairs), `b` bytes (hexadecimal), `c` complex, `n` a float that is no number, `o` the number of
something that stays where it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

DEEPEST = 50
Keep = Callable[[Any], int]
Find = Callable[[int], Any]


def no_thing(value: Any) -> int:
    """Nothing stays where it is."""
    raise TypeError(type(value).__name__)


def encoded(value: Any, keep: Keep = no_thing, depth: int = 0) -> Any:
    """The value as JSON has it; `keep` gives numbers to what is no plain value. Raises TypeError, RecursionError."""
    if depth > DEEPEST:
        raise RecursionError
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    for kind, letter, inside in KINDS:
        if isinstance(value, kind):
            inner = inside(value)
            written = [encoded(one, keep, depth + 1) for one in inner] if isinstance(inner, list) else inner
            return {letter: written} if letter else written
    return {"o": keep(value)}


KINDS: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
    (float, "n", lambda value: str(float(value))),
    (complex, "c", lambda value: [value.real, value.imag]),
    (bytes | bytearray, "b", lambda value: value.hex()),
    (dict, "d", lambda value: [list(pair) for pair in value.items()]),
    (list, "", list),
    (tuple, "t", list),
    (set, "s", list),
    (frozenset, "f", list),
)


def decoded(data: Any, find: Find = no_thing) -> Any:
    """The value that was written; `find` gives what has a number. Raises TypeError, ValueError for anything else."""
    if isinstance(data, list):
        return [decoded(one, find) for one in data]
    if not isinstance(data, dict):
        return data
    ((letter, inner),) = data.items()
    if letter == "o":
        return find(inner)
    return READERS[letter](inner if letter in "bn" else decoded(inner, find))


READERS: dict[str, Callable[[Any], Any]] = {
    "t": tuple,
    "s": set,
    "f": frozenset,
    "d": dict,
    "b": bytes.fromhex,
    "c": lambda parts: complex(*parts),
    "n": float,
}
