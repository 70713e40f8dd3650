"""Compare what a reply's code gave with what it has to give: plain values, outside every sandbox.

Gold is JSON: a list of what each call gives, `{"typed": [..]}` the same with Python's types, `{"chart": KIND, "series": [..]}`
what has to be drawn. A reply's test gives one value, true.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from tuneloop.core.catalog import Item, Verified
from tuneloop.tools.scoring import answer_matching, chart_matching, typed_json

CLOSE = 1e-9
SHOWN = 2000
INDENTED, OUTDENTED = re.compile(r"(?:[ \t]*\n){0,9}[ \t]+\S"), re.compile(r"^(?=\S)", re.MULTILINE)
BROKEN = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    RecursionError,
)  # what strange values make of a comparison


def reply_code(item: Item, reply: str) -> str | None:
    """The code of a reply, after what stands before it; None: there is none.

    Where something stands before, a reply may also go on with it: indented lines, up to the first that is not.
    """
    found = answer_matching.extract("code", reply)
    before = "" if item.calls is None or isinstance(item.calls, Verified) else item.calls.before
    if not before:
        return found
    if (
        found is None
        and (text := answer_matching.without_thoughts(reply))
        and "```" not in text
        and INDENTED.match(text)
    ):
        return before + text[: end.start() if (end := OUTDENTED.search(text)) else None]
    return f"{before}\n{found}" if found is not None else None


def judge_results(gold: str, results: list[dict[str, Any]] | None) -> tuple[str | None, bool]:
    """What was given, as text (None: the code gave nothing), and whether all of it is right.

    `results`: as in `check_results`.
    """
    check_results(results)
    wanted = json.loads(gold)
    if results is None:
        return None, False
    return show_results(results), is_right(wanted, results)


def verified_answer(reply: str) -> str | None:
    """What of a reply a verifier gets, None: nothing is there."""
    return answer_matching.extract("verifier", reply)


def judge_verified(results: list[dict[str, Any]] | None) -> tuple[float, str]:
    """What a verifier gave, from 0 to 1, and the name of the error with which it turned the answer down, or "".

    Raises ValueError for another number: the verifier is broken, whatever the answer was.
    """
    check_results(results)
    if not results:
        return 0.0, ""
    if "error" in results[0]:
        return 0.0, str(results[0]["error"])[:80]
    value = results[0]["value"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"the verifier gives {str(value)[:40]}; right is a number from 0 to 1")
    return float(value), ""


def is_right(wanted: Any, results: list[dict[str, Any]]) -> bool:
    """Whether these are the values; one that is none of its kind is wrong."""
    values = [one["value"] for one in results if "value" in one]
    if len(values) != len(results):
        return False
    try:
        if isinstance(wanted, list):
            return len(values) == len(wanted) and all(map(same_value, values, wanted))
        if "typed" in wanted:
            return bool([typed_json.decoded(value) for value in values] == typed_json.decoded(wanted["typed"]))
        return len(values) == 1 and chart_matching.is_chart_right(wanted["chart"], wanted["series"], values[0])
    except BROKEN:
        return False


def is_readable(gold: str) -> bool:
    """Whether it says what has to be given."""
    try:
        wanted = json.loads(gold)
        if isinstance(wanted, dict):
            return bool(wanted.get("typed")) or (wanted["chart"] in chart_matching.KINDS and bool(wanted["series"]))
        return isinstance(wanted, list) and bool(wanted)
    except BROKEN:
        return False


def execution_facts(gold: str, results: list[dict[str, Any]] | None, *, has_code: bool) -> dict[str, Any]:
    """What further metrics are made of."""
    if "chart" not in json.loads(gold):
        return {}
    return {"code": has_code, "ran": results is not None and all("value" in one for one in results)}


def execution_summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Of charts, percent of all items: `Parse@1`, replies with code, and `ECR@1`, code that came to its end."""
    charted = [row for row in rows if "code" in row]
    if not charted:
        return {}
    return {
        "Parse@1": 100 * sum(row["code"] for row in charted) / len(rows),
        "ECR@1": 100 * sum(row["ran"] for row in charted) / len(rows),
    }


def check_results(results: Any) -> None:
    """Raises TypeError unless it is a `{"value": ..}` or `{"error": ..}` for each call, or None."""
    if results is not None and not isinstance(results, list):
        raise TypeError("results are no list")
    if not all(isinstance(one, dict) and one.keys() in ({"value"}, {"error"}) for one in results or ()):
        raise TypeError("results are no list of values and errors")


def show_results(results: list[dict[str, Any]]) -> str:
    """Values as JSON, an error by its name."""
    told = [json.dumps(one["value"]) if "value" in one else str(one["error"])[:80] for one in results]
    return f"[{', '.join(told)}]"[:SHOWN]


def same_value(given: Any, wanted: Any) -> bool:
    """Equal as JSON values: a number by value, fractions to nine digits; true is no 1, and order counts in lists."""
    if isinstance(given, bool) or isinstance(wanted, bool):
        return given is wanted
    if isinstance(given, int | float) and isinstance(wanted, int | float):
        return given == wanted or is_close(given, wanted)
    if isinstance(given, list) and isinstance(wanted, list):
        return len(given) == len(wanted) and all(map(same_value, given, wanted))
    if isinstance(given, dict) and isinstance(wanted, dict):
        return given.keys() == wanted.keys() and all(same_value(given[name], value) for name, value in wanted.items())
    return type(given) is type(wanted) and bool(given == wanted)


def is_close(given: float, wanted: float) -> bool:
    """Whether two numbers of which one is a fraction differ by rounding only."""
    fraction = isinstance(given, float) or isinstance(wanted, float)
    try:
        return fraction and math.isclose(given, wanted, rel_tol=CLOSE, abs_tol=CLOSE * CLOSE)
    except OverflowError:
        return False
