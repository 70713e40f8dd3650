"""Training values: the sensible first ones for a model and device, and how many steps the time allows."""

from __future__ import annotations

from tuneloop.agents.policy.knobs import FULL, LORA, Knobs, Values
from tuneloop.agents.policy.situation import Situation

TINY_STEPS, TINY_SECONDS, LONGEST_SECONDS = 320, 75.0, 130.0


def first_training(situation: Situation, knobs: Knobs, rows: float) -> Values:
    """Full training for a tiny model, LoRA for a real one; steps or epochs by time."""
    if situation.card.tiny:
        return knobs.begun(FULL) | {knobs.steps: allowed_steps(situation, TINY_STEPS, 0.0)}
    values = knobs.begun(LORA)
    epochs = knobs.first[LORA][knobs.epochs]
    wanted = knobs.steps_of({knobs.epochs: epochs}, rows)
    steps = allowed_steps(situation, wanted, 0.0)
    return values | ({knobs.epochs: epochs} if steps >= wanted else {knobs.steps: steps})


def guessed_tokens(situation: Situation) -> float:
    """Tokens of a typical record, from its characters."""
    p = situation.facts.prompt_lengths.p50 + max(
        (s.profile.solution_lengths.p50 for s in situation.sources), default=100
    )
    return p / (2.0 if situation.card.tiny else 3.5) + 10


def seconds_allowed(situation: Situation) -> float:
    """Seconds one training may take: a fair part of what is left, and on its own a minute or so for a tiny model."""
    budget = situation.brief.budget
    own = (TINY_SECONDS if situation.experiment_one else LONGEST_SECONDS) if situation.card.tiny else float("inf")
    if budget.training_left is None:
        return own
    overhead = max(0.0, (budget.seconds_per_experiment or 0.0) - (budget.training_seconds or 0.0))
    share = 0.7 * budget.training_left / max(1, min(budget.experiments_left or 3, 4)) - overhead
    return max(5.0, min(own, share))


def allowed_steps(situation: Situation, wanted: int, seconds_per_step: float) -> int:
    """`wanted`, or as many steps (in tens) as the time allows; at least 20.

    What was measured counts only where the user set a time: else a busy machine would change the journal.
    """
    timed = situation.brief.budget.training_left is not None
    each = (seconds_per_step if timed else 0.0) or situation.card.seconds_per_step(guessed_tokens(situation))
    possible = seconds_allowed(situation) / each
    return max(20, wanted if wanted <= possible else int(possible) // 10 * 10)
