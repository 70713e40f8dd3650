"""Training values: the sensible first ones for a model and device, and how many steps the time allows."""

from __future__ import annotations

from tuneloop.agents.policy.situation import BATCH, Situation
from tuneloop.core.experiment import Value

Values = dict[str, Value]
TINY_STEPS, TINY_SECONDS, LONGEST_SECONDS = 320, 75.0, 130.0
FIRST_GUESS_TOKENS = 2.5


def first_training(situation: Situation, rows: float) -> Values:
    """Full training for a tiny model, LoRA for a real one; steps or epochs by time."""
    card = situation.card
    if card.tiny:
        steps = allowed_steps(situation, TINY_STEPS, 0.0)
        return {"finetuning_type": "full", "learning_rate": 1e-3, "max_steps": steps}
    rate = 2e-4 if card.parameters < 2_000_000_000 else 1e-4
    values: Values = {"finetuning_type": "lora", "learning_rate": rate, "lora_rank": 32}
    wanted = max(1, round(3 * rows / BATCH))
    steps = allowed_steps(situation, wanted, 0.0)
    return values | ({"num_train_epochs": 3.0} if steps >= wanted else {"max_steps": steps})


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
    if budget.seconds_left is None:
        return own
    overhead = max(0.0, (budget.seconds_per_experiment or 0.0) - (budget.training_seconds or 0.0))
    share = 0.7 * budget.seconds_left / max(1, min(budget.experiments_left or 3, 4)) - overhead
    return max(5.0, min(own, share))


def allowed_steps(situation: Situation, wanted: int, seconds_per_step: float) -> int:
    """`wanted`, or as many steps (in tens) as the time allows; at least 20.

    What was measured counts only where the user set a time: else a busy machine would change the journal.
    """
    timed = situation.brief.budget.seconds_left is not None
    each = (seconds_per_step if timed else 0.0) or situation.card.seconds_per_step(guessed_tokens(situation))
    possible = seconds_allowed(situation) / each
    return max(20, wanted if wanted <= possible else int(possible) // 10 * 10)


def steps_of(values: Values, rows: float) -> int:
    """Optimizer steps of a plan."""
    if "max_steps" in values:
        return int(float(str(values["max_steps"])))
    return max(1, round(float(str(values.get("num_train_epochs", 3))) * rows / BATCH))


def with_steps(values: Values, steps: int, rows: float) -> Values:
    """The plan with another length, said as it was said before."""
    if "num_train_epochs" in values:
        return {**values, "num_train_epochs": round(max(0.5, steps * BATCH / max(1.0, rows)), 1)}
    return {**values, "max_steps": steps}


def with_rate(values: Values, factor: float) -> Values:
    """The plan with another learning rate, two digits."""
    return {**values, "learning_rate": float(f"{float(str(values.get('learning_rate', 1e-4))) * factor:.2g}")}


def other_method(situation: Situation, values: Values) -> Values:
    """Full ↔ LoRA, with the rate that suits it."""
    rest = {k: v for k, v in values.items() if k not in ("finetuning_type", "learning_rate", "lora_rank")}
    if values.get("finetuning_type") == "lora":
        return {"finetuning_type": "full", "learning_rate": 1e-3 if situation.card.tiny else 1e-5, **rest}
    rate = 3e-3 if situation.card.tiny else 2e-4
    return {"finetuning_type": "lora", "learning_rate": rate, "lora_rank": 16 if situation.card.tiny else 32, **rest}
