"""Options of a multiple-choice source: where they stand, and how the answer points at one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from tuneloop.core.records import text_of
from tuneloop.tools.profiling.columns import Column


def find_options(columns: Sequence[Column]) -> tuple[str, ...]:
    """A list of two to ten texts named like options, or sibling fields that end in A, B, C or 1, 2, 3 and so on."""
    for c in columns:
        sizes = [len(v) for v in c.values if isinstance(v, list)]
        if c.is_list and sizes and re.search(r"option|choice|candidate|alternativ|antworten", c.path.casefold()):
            texts = all(isinstance(part, str) for v in c.values[:50] if isinstance(v, list) for part in v)
            if texts and min(sizes) >= 2 and max(sizes) <= 10 and not re.search(r"label", c.path.casefold()):
                return (c.path,)
    paths = {c.path.casefold(): c.path for c in columns}
    for ends in ("abcdefghij", "1234567890", "0123456789"):
        for low, path in paths.items():
            stem = path[:-1].casefold() if low.endswith(ends[0]) else None
            if stem is None or (
                stem
                and stem[-1].isalnum()
                and not re.search(
                    r"(option|choice|opt?|answer|ans|ending|sol|alt|o|c|antwort|alternative|candidate)$", stem
                )
            ):
                continue
            run = [paths[stem + end] for end in ends if stem + end in paths]
            if len(run) >= 2 and [p.casefold() for p in run] == [stem + end for end in ends[: len(run)]]:
                return tuple(run)
    return ()


def index_base(columns: Sequence[Column], path: str | None, options: tuple[str, ...]) -> Literal[0, 1] | None:
    """Whether the answer counts the options from 0 or from 1; None: it is a letter or a text."""
    if path is None or not options:
        return None
    texts = next(c.texts for c in columns if c.path == path)
    if not all(re.fullmatch(r"\d", t) for t in texts[:300]) or options_hold(columns, options, texts):
        return None
    return 0 if "0" in texts[:300] else 1


def options_hold(columns: Sequence[Column], options: tuple[str, ...], texts: Iterable[str]) -> bool:
    """Whether the answers are texts of the options themselves, as in arithmetic with small numbers."""
    held = {
        text_of(v)
        for c in columns
        if c.path in options
        for value in c.values
        for v in (value if isinstance(value, list) else [value])
    }
    return set(list(texts)[:300]) <= held
