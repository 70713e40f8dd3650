"""The smoke run: which rows it trains on, and what its log proves."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from tuneloop.core.job import Exit

LONGEST = 3  # steps of a smoke run that have the longest rows
MAX_RISE = 3.0


def smoke_run_rows(lengths: Sequence[int], batch: int, steps: int) -> list[int]:
    """Places of the rows that a smoke run of `steps` steps of `batch` rows trains on, in the order of its steps.

    The first LONGEST steps have the longest rows, the same each time: once with optimizer states, memory is at its peak.
    The others have rows drawn evenly over all lengths, mixed. Few rows come again and again.
    """
    if not lengths:
        return []
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    longest = [order[i % len(order)] for i in range(batch)]
    count = max(0, steps - LONGEST) * batch
    typical = [order[(2 * i + 1) * len(order) // (2 * count) % len(order)] for i in range(count)]
    random.Random(0).shuffle(typical)
    return longest * min(LONGEST, steps) + typical


def check_smoke_run(points: Sequence[Mapping[str, Any]], exit_: Exit) -> list[str]:
    """What a smoke run's log (rows with `loss`) shows to be wrong, one sentence each; [] when nothing is."""
    if not exit_.ok:
        return [f"the smoke run ended by {exit_.reason} with code {exit_.code}; its log says why"]
    wrong = _wrong_losses([float(p["loss"]) for p in points if p.get("loss") is not None])
    return [wrong] if wrong else []


def _wrong_losses(losses: Sequence[float]) -> str | None:
    if not losses:
        return "the smoke run logged no loss: nothing was trained"
    if not all(map(math.isfinite, losses)):
        return "the loss is NaN or infinite within the first steps: lower learning_rate"
    if 0.0 in losses:
        return "the loss is exactly 0: no answer token is trained on; raise cutoff_len or look at the outputs"
    if len(losses) > 1 and len(set(losses)) == 1:
        return "the loss does not move: learning_rate is too small or nothing is trainable"
    if losses[-1] > MAX_RISE * losses[0] and losses[-1] > losses[0] + 1:
        return f"the loss rises from {losses[0]:.2f} to {losses[-1]:.2f} in {len(losses)} steps: lower learning_rate"
    return None
