"""Compares what lies on a reply's axes with the values that a chart has to show."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# Kind of chart → what of the axes has its values.
KINDS = {
    "line": "lines",
    "bar": "heights",
    "hbar": "widths",
    "waterfall": "heights",
    "pie": "wedges",
    "scatter": "points",
    "area": "areas",
    "radar": "radar",
}
CLOSE = 1e-3  # relative
NUMBERS = (ast.Add, ast.Sub, ast.Mult, ast.Div)
Number = float | None


def is_chart_right(kind: str, series: Sequence[Sequence[Number]], drawn: Mapping[str, Any]) -> bool:
    """Whether what was drawn shows these values, no more and no less, in whatever order and series.

    Numbers agree to a thousandth, or to half of the last decimal that the wanted ones have. Pies are shares.
    """
    wanted = [value for one in series for value in one]
    given = [value for one in drawn[KINDS[kind]] for value in parse_series(one)]
    slack = 0.5 * 10.0 ** -most_decimals(wanted) if most_decimals(wanted) else 0.0
    if kind == "pie":
        total = math.fsum(value or 0.0 for value in wanted)
        wanted, slack = [(value or 0.0) / total for value in wanted], max(slack / total, 1e-6)
    pairs = zip(sorted(given, key=sort_key), sorted(wanted, key=sort_key), strict=False)
    return len(given) == len(wanted) and all(numbers_agree(one, other, slack) for one, other in pairs)


def parse_series(series: Any) -> list[Number]:
    """The series. Raises TypeError when it is no list of numbers."""
    if not isinstance(series, list) or not all(one is None or type(one) in (int, float) for one in series):
        raise TypeError("no list of numbers")
    return series


def numbers_agree(given: Number, wanted: Number, slack: float) -> bool:
    """The same number, or no number both."""
    if given is None or wanted is None:
        return given is wanted
    return math.isclose(given, wanted, rel_tol=CLOSE, abs_tol=slack * (1 + 1e-9))


def sort_key(value: Number) -> tuple[bool, float]:
    """Numbers first."""
    return (value is None, value or 0.0)


def most_decimals(values: Sequence[Number]) -> int:
    """The most that one of them has, six at most."""
    told = [f"{value:.6f}".rstrip("0").partition(".")[2] for value in values if value is not None]
    return max(map(len, told), default=0)


def references(answer: str) -> list[list[Number]]:
    """The values in `y_references = [[..], ..]`, which is read and never run. Raises ValueError for anything else."""
    try:
        found = [node.value for node in ast.parse(answer.strip()).body if isinstance(node, ast.Assign)]
        series = list(list_elements(found[-1]))
        rows = [
            [number_value(one) for one in list_elements(part)] if is_list(part) else [number_value(part)]
            for part in series
        ]
    except (SyntaxError, IndexError, RecursionError, ZeroDivisionError) as e:
        raise ValueError(f"no y_references in {answer[:80]!r}") from e
    if not any(rows):
        raise ValueError(f"no values in {answer[:80]!r}")
    return rows


def is_list(node: ast.expr) -> bool:
    """Whether it is a list."""
    return isinstance(node, ast.List | ast.Tuple)


def list_elements(node: ast.expr) -> Iterator[ast.expr]:
    """What a list holds. Raises ValueError when it is none."""
    if isinstance(node, ast.List | ast.Tuple):
        return iter(node.elts)
    raise ValueError(f"no list: {ast.unparse(node)[:80]}")


def number_value(node: ast.expr) -> Number:
    """A number, None for one that is none. Raises ValueError for anything else."""
    if isinstance(node, ast.Constant) and (node.value is None or type(node.value) in (int, float)):
        return None if node.value is None else finite_or_none(float(node.value))  # type: ignore[arg-type]
    if ast.unparse(node) in ("nan", "np.nan", "float('nan')"):
        return None
    if (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and (inner := number_value(node.operand)) is not None
    ):
        return -inner
    if isinstance(node, ast.BinOp) and isinstance(node.op, NUMBERS):
        left, right = number_value(node.left), number_value(node.right)
        if left is not None and right is not None:
            return finite_or_none(CALCULATED[type(node.op)](left, right))
    raise ValueError(f"no number: {ast.unparse(node)[:80]}")


def finite_or_none(number: float) -> Number:
    """The number, None for infinity."""
    return number if math.isfinite(number) else None


CALCULATED: dict[type, Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}
