"""What of logs may be shown to agents: lines with an item of a sealed test, or of the unseen half of validation, are omitted.

Raw data need none of it: rows with such items are not in what a run reads (`raw_data/filtered_view.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

from tuneloop.tools.contamination.guard import Guard

SEALED = "the sealed test or of the validation half that is not shown"
LINE = f"[omitted: this holds an item of {SEALED}]"


def find_sealed(guard: Guard, texts: Iterable[str]) -> list[bool]:
    """For each text whether it holds an item that nobody may see."""
    return [hit is not None and hit.sealed for hit in guard.find(texts)]


def filter_lines(guard: Guard, text: str) -> str:
    """The text without the lines that hold a sealed item; none of it where the lines hold one together."""
    lines = text.splitlines()
    kept = "\n".join(LINE if held else line for line, held in zip(lines, find_sealed(guard, lines), strict=True))
    return LINE if find_sealed(guard, [kept])[0] else kept


def omission_notice(count: int) -> dict[str, str]:
    """What agents are told of rows that were removed from a data set; nothing where none were."""
    if not count:
        return {}
    return {"omitted": f"{count} rows were removed: they held items of {SEALED}"}
