"""Whether a text really holds what a probe looks for: every sentence letter by letter, or all but one stretch that was cut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tuneloop.tools.contamination.letters import merged
from tuneloop.tools.contamination.probes import Probe
from tuneloop.tools.contamination.shingles import SIZE, U64, shingles

LEAST = 0.3  # of its letters that must be there
KEPT = (0.35, 0.5)  # of its letters that must be left when one sentence was cut, or several side by side
REST = 32  # bytes of them, at least
CUT, LABEL = 12, 2  # bytes of what may be called a cut sentence; letters of what may be another label
ALIKE, GRAM = 0.15, 4  # share of a missing stretch's runs of letters beyond which it was changed, not cut
BESIDE = 4  # letters beside a number that must be beside it
NUMBER = re.compile(r"\d+")
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Window:
    """Part of a text: its letters, the same merged, and the shingles that begin there."""

    plain: str
    text: str
    keys: U64


def holds(window: Window, probe: Probe) -> bool:
    """Whether the probe is there."""
    text = merged(probe.plain)
    keys = shingles(text)
    there = covered(np.isin(keys, window.keys), len(text))
    if there.mean() < LEAST:
        return False
    begins = (0, *probe.ends[:-1])
    missing = [
        i
        for i, (begin, end) in enumerate(zip(begins, probe.ends, strict=True))
        if not _has_piece(window, probe.plain, text, there, begin, end)
    ]
    if not missing:
        return True
    first, last = missing[0], missing[-1]
    long = [i for i in range(first, last + 1) if probe.ends[i] - begins[i] >= SIZE]
    if probe.whole or not set(long) <= set(missing):
        return False
    begin, end = begins[first], probe.ends[last]
    return len(text) - (end - begin) >= KEPT[len(long) > 1] * len(text) and _is_cut(window, text, keys, begin, end)


def covered(found: Bools, letters: int) -> Bools:
    """Which letters lie in a shingle that was found."""
    steps = np.zeros(letters + 1, np.int64)
    at = np.flatnonzero(found)
    steps[at] += 1
    steps[at + SIZE] -= 1
    return np.cumsum(steps[:-1]) > 0


def _has_piece(window: Window, plain: str, text: str, there: Bools, begin: int, end: int) -> bool:
    """Whether a sentence is there, with its numbers."""
    if not (there[begin:end].all() or (end - begin < SIZE and text[begin:end] in window.text)):
        return False
    numbers = NUMBER.finditer(plain, begin, end)
    return all(_in_place(window, plain, text, (begin, end), number.span()) for number in numbers)


def _in_place(window: Window, plain: str, text: str, piece: tuple[int, int], number: tuple[int, int]) -> bool:
    """Whether a number is there whole, beside what is on its left or on its right."""
    begin, end = number
    for low, high in ((max(piece[0], begin - BESIDE), end), (begin, min(piece[1], end + BESIDE))):
        for at in _places(window.text, text[low:high]):
            before, after = window.plain[max(0, at - 1) : at], window.plain[at + high - low : at + high - low + 1]
            starts = low < begin or not before.isdigit() or before == plain[max(0, low - 1) : low]
            if starts and (high > end or not after.isdigit() or after == plain[high : high + 1]):
                return True
    return False


def _places(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _is_cut(window: Window, text: str, keys: U64, begin: int, end: int) -> bool:
    """Whether only this stretch is missing, enough is left, and nothing like the stretch stands in its stead."""
    stretch, rest = text[begin:end], text[:begin] + text[end:]
    if len(rest.encode()) < REST:
        return False
    if len(stretch.encode()) < CUT:
        return len(stretch) <= LABEL and not stretch.isdigit()
    kept = np.concatenate([keys[: max(0, begin - SIZE + 1)], keys[end:]])
    other = ~covered(np.isin(window.keys, kept), len(window.text))
    left = "".join(letter if new else " " for letter, new in zip(window.text, other.tolist(), strict=True))
    known = _grams(left)
    wanted = _grams(stretch)
    return len(wanted & known) < ALIKE * len(wanted)


def _grams(text: str) -> set[str]:
    return {gram for i in range(len(text) - GRAM + 1) if " " not in (gram := text[i : i + GRAM])}
