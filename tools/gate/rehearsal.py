"""The micro-run: which rows it trains on, and what its log proves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from tuneloop.core.job import Exit

T = TypeVar("T")

RISE = 3.0


def rehearsal_rows(data: Sequence[T], lengths: Sequence[int], count: int) -> list[T]:
    """Half the longest rows, half of those nearest to the median length; `count` in all, fewer when there are fewer."""
    if len(data) != len(lengths):
        raise ValueError(f"{len(lengths)} lengths for {len(data)} rows; right is one a row")
    order = sorted(range(len(data)), key=lambda i: (-lengths[i], i))
    count = min(count, len(data))
    longest = order[: (count + 1) // 2]
    rest = order[len(longest) :]
    middle = lengths[order[len(order) // 2]] if order else 0
    typical = sorted(rest, key=lambda i: (abs(lengths[i] - middle), i))[: count - len(longest)]
    return [data[i] for i in (*longest, *typical)]


def check_rehearsal(points: Sequence[Mapping[str, Any]], exit_: Exit) -> list[str]:
    """What a micro-run's log (rows with `loss`) shows to be wrong, one sentence each; [] when nothing is."""
    if not exit_.ok:
        return [f"the micro-run ended by {exit_.reason} with code {exit_.code}; its log says why"]
    wrong = _wrong_losses([float(p["loss"]) for p in points if p.get("loss") is not None])
    return [wrong] if wrong else []


def _wrong_losses(losses: Sequence[float]) -> str | None:
    if not losses:
        return "the micro-run logged no loss: nothing was trained"
    if not all(map(math.isfinite, losses)):
        return "the loss is NaN or infinite within the first steps: lower learning_rate"
    if 0.0 in losses:
        return "the loss is exactly 0: no answer token is trained on; raise cutoff_len or look at the outputs"
    if len(losses) > 1 and len(set(losses)) == 1:
        return "the loss does not move: learning_rate is too small or nothing is trainable"
    if losses[-1] > RISE * losses[0] and losses[-1] > losses[0] + 1:
        return f"the loss rises from {losses[0]:.2f} to {losses[-1]:.2f} in {len(losses)} steps: lower learning_rate"
    return None
