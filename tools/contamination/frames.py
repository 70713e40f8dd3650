"""The common instruction: what all items of a benchmark begin and end with."""

from __future__ import annotations

from collections.abc import Sequence

ENOUGH = 8

Frame = tuple[list[str], list[str]]


def frame(texts: Sequence[list[str]]) -> Frame:
    """Tokens that all texts begin with, and end with: the common instruction. None for a handful of texts."""
    if len(texts) < ENOUGH:
        return [], []
    first, last = common(texts), common([words[::-1] for words in texts])
    return first, last[::-1]


def common(texts: Sequence[list[str]]) -> list[str]:
    """The longest common beginning."""
    low, high = min(texts), max(texts)
    length = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:length]


def unframed(words: list[str], around: Frame) -> list[str]:
    """Without the common beginning and end, where they are there and something is left between them."""
    first, last = around
    start = len(first) if first and words[: len(first)] == first else 0
    stop = len(words) - len(last) if last and words[-len(last) :] == last else len(words)
    return words[start:stop] if start < stop else words
