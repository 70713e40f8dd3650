"""How many bytes a training writes, estimated from the model card and the config; generous by design."""

from __future__ import annotations

from tuneloop.tools.params.finalize import DECIDED
from tuneloop.tools.params.memory import estimate_memory
from tuneloop.tools.params.situation import Situation

SMALL = 64 << 20  # tokenizer, states, logs


def model_bytes(situation: Situation) -> int:
    """What is saved of the model: an adapter, or all of it in float32."""
    if situation.method in ("lora", "oft"):
        return estimate_memory(situation).gradients + SMALL
    return 4 * situation.model.parameters + SMALL


def checkpoint_bytes(situation: Situation) -> int:
    """Model and optimizer."""
    return model_bytes(situation) + estimate_memory(situation).optimizer


def training_bytes(situation: Situation) -> int:
    """The most that lies there at once: kept checkpoints, the one that is being written, the final model."""
    return (int(DECIDED["save_total_limit"]) + 1) * checkpoint_bytes(situation) + model_bytes(situation)
