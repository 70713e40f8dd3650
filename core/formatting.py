"""How numbers, times and foreign text are written for people; text of a model never reaches the terminal raw."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuneloop.core.score import Comparison


def format_duration(seconds: float) -> str:
    """`8 s`, `4 min 05 s`, `2 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def format_size(count: float) -> str:
    """Bytes as `512 MB` or `12.3 GB` (powers of 1000)."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def format_interval(value: float | None, low: float | None, high: float | None) -> str:
    """`71.5 (65-77)`: percent with its 95 % interval."""
    if value is None:
        return "-"
    return f"{value:.1f}" if low is None or high is None else f"{value:.1f} ({low:.0f}-{high:.0f})"


def format_gain(value: float, low: float, high: float) -> str:
    """`+3.0 points (95 %: 0.9 to 5.1)`."""
    return f"{value:+.1f} points (95 %: {low:.1f} to {high:.1f})"


def format_gain_cell(value: float, low: float, high: float) -> str:
    """`+3.0 (0.9 to 5.1)`: points with their 95 % interval, for a table."""
    return f"{value:+.1f} ({low:.1f} to {high:.1f})"


def format_comparison(found: Comparison) -> str:
    """`+3.0 points (95 %: 0.9 to 5.1) on 1,000 items`, and in how many clusters where they are no items."""
    clusters = f" in {found.units:,} clusters" if found.units not in (0, found.n) else ""
    return f"{format_gain(found.gain, found.low, found.high)} on {found.n:,} items{clusters}"


def format_p_value(value: float | None) -> str:
    """A p-value."""
    if value is None:
        return "-"
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def format_equals(number: str) -> str:
    """`= 0.03` or `< 0.0001`."""
    return number if number.startswith("<") else f"= {number}"


# C0 and C1 without line ends and tabs, what turns the direction of writing, and halves of characters.
TURNING, HALVES = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}, range(0xD800, 0xE000)
CONTROLS = dict.fromkeys({*range(0x20), *range(0x7F, 0xA0), *TURNING, *HALVES} - {9, 10})


def plain_lines(text: str) -> str:
    """A text of several lines for a terminal, without control characters: escape sequences lose their power."""
    return text.translate(CONTROLS)


def printable(text: str, limit: int = 300) -> str:
    """One printable line: control characters and escape sequences lose their power, length is bounded."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
