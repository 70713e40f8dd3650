"""What a training costs: forecast by its micro-run, and what it really took."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Cost(BaseModel):
    """Of all attempts and all processes of one training, its start, its saves and its end included.

    `memory` is the most that was resident at once, in bytes; pages that a job shares with the warm engine it is a fork
    of count whole. `device_memory`: bytes that PyTorch held of the accelerator at most; None without one.
    """

    model_config = ConfigDict(frozen=True)

    seconds: float
    cpu: float = Field(0.0, description="CPU seconds; 0: nobody counted")
    memory: int = 0
    device_memory: int | None = None


class Forecast(Cost):
    """Of a full training; `beside`: those of its seconds that are no optimizer steps."""

    steps: int
    epochs: float = Field(0.0, description="passes over the rows that the engine makes of the built data")
    seconds_per_step: float
    beside: float = 0.0
    disk: int = Field(0, description="bytes that checkpoints and model take at most")
    recipe: str = Field("", description="digest of base model, device and what of the config costs memory")


def off(forecast: float, real: float) -> float:
    """How much too high (or, negative, too low) a forecast was, in percent; 0 where nothing was measured."""
    return 100 * (forecast / real - 1) if real else 0.0
