"""Compare what the calls of a reply's code gave with what they have to give: plain JSON values, outside every sandbox."""

from __future__ import annotations

import json
import math
from typing import Any

CLOSE = 1e-9
SHOWN = 2000


def judge(gold: str, results: list[dict[str, Any]] | None) -> tuple[str | None, bool]:
    """What was given, as text (None: the code gave nothing), and whether all of it is right.

    `results`: as in `check`.
    """
    check(results)
    wanted = json.loads(gold)
    if results is None:
        return None, False
    right = len(results) == len(wanted) and all(
        "value" in one and same(one["value"], value) for one, value in zip(results, wanted, strict=True)
    )
    return shown(results), right


def check(results: Any) -> None:
    """Raises TypeError unless it is a `{"value": ..}` or `{"error": ..}` for each call, or None."""
    if results is not None and not isinstance(results, list):
        raise TypeError("results are no list")
    if not all(isinstance(one, dict) and one.keys() in ({"value"}, {"error"}) for one in results or ()):
        raise TypeError("results are no list of values and errors")


def shown(results: list[dict[str, Any]]) -> str:
    """Values as JSON, an error by its name."""
    told = [json.dumps(one["value"]) if "value" in one else str(one["error"])[:80] for one in results]
    return f"[{', '.join(told)}]"[:SHOWN]


def same(given: Any, wanted: Any) -> bool:
    """Equal as JSON values: a number by value, fractions to nine digits; true is no 1, and order counts in lists."""
    if isinstance(given, bool) or isinstance(wanted, bool):
        return given is wanted
    if isinstance(given, int | float) and isinstance(wanted, int | float):
        return given == wanted or close(given, wanted)
    if isinstance(given, list) and isinstance(wanted, list):
        return len(given) == len(wanted) and all(map(same, given, wanted))
    if isinstance(given, dict) and isinstance(wanted, dict):
        return given.keys() == wanted.keys() and all(same(given[name], value) for name, value in wanted.items())
    return type(given) is type(wanted) and bool(given == wanted)


def close(given: float, wanted: float) -> bool:
    """Whether two numbers of which one is a fraction differ by rounding only."""
    fraction = isinstance(given, float) or isinstance(wanted, float)
    try:
        return fraction and math.isclose(given, wanted, rel_tol=CLOSE, abs_tol=CLOSE * CLOSE)
    except OverflowError:
        return False
