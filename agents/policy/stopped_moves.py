"""The rule for trainings that the live watch ended: what their evidence blames."""

from __future__ import annotations

from collections.abc import Iterator

from tuneloop.agents.policy.moves import Case, Move

DIVERGING = ("nan", "diverged", "exploded")


def stopped_moves(case: Case) -> Iterator[Move]:
    """A training that was stopped: a lower rate where it diverged, a higher one where nothing moved, else fewer steps."""
    e = case.evidence
    stopped = e.training.stopped if e.training else None
    if stopped is None:
        return
    why = f"stopped at step {stopped.at} of {stopped.of}: {stopped.text}"
    if stopped.kind in DIVERGING:
        lower = case.at_rate(0.3)
        yield case.move("rate", 0.9, "A third of the learning rate, which diverged.", why, training=lower)
    elif stopped.kind == "flat":
        higher = case.at_rate(5)
        yield case.move("rate", 0.9, "Five times the learning rate, which moved nothing.", why, training=higher)
    else:
        steps = case.knobs.with_steps(case.training, max(20, round(0.9 * stopped.step)), e.rows)
        yield case.move("rate", 0.5, "As many steps as the time allows, decay included.", why, training=steps)
