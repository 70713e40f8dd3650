"""Which GPUs a training fits: memory of common types, and how many of each are enough."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tuneloop.tools.config.memory_estimate import Hardware, Recipe, estimate_memory
from tuneloop.tools.config.model_shape import ModelShape

# Bytes that CUDA reports as total, in GiB; the rest of the label is the vendor's rounding.
GPUS = {
    "T4 16 GB": 14.6,
    "RTX 3090 / 4090 24 GB": 23.6,
    "A10 / L4 24 GB": 22.0,
    "RTX 5090 32 GB": 31.4,
    "V100 32 GB": 31.7,
    "A100 40 GB": 39.4,
    "L40S / RTX 6000 Ada 48 GB": 44.4,
    "A100 80 GB": 79.2,
    "H100 80 GB": 79.2,
    "H200 141 GB": 139.7,
    "B200 180 GB": 178.0,
}
USABLE = 0.95  # the allocator's own gaps
MOST = 8


@dataclass(frozen=True)
class Fit:
    """One GPU type: bytes needed on one, and the least number with ZeRO-3 that holds it; None: more than eight."""

    gpu: str
    memory: int
    share: float
    needed: int | None


def gpu_fits(shape: ModelShape, recipe: Recipe) -> list[Fit]:
    """Each type, smallest first; `share` is the part of one GPU's memory that the training takes."""
    return [_fit(name, int(gib * (1 << 30)), shape, recipe) for name, gib in sorted(GPUS.items(), key=lambda i: i[1])]


def _fit(name: str, memory: int, shape: ModelShape, recipe: Recipe) -> Fit:
    one = estimate_memory(shape, recipe).total
    clusters = [Hardware(gpus=1), *(Hardware(gpus=n, zero=3) for n in range(2, MOST + 1))]
    enough = (c.gpus for c in clusters if estimate_memory(shape, for_zero3(recipe, c), c).total <= USABLE * memory)
    return Fit(name, memory, one / memory, next(enough, None))


def for_zero3(recipe: Recipe, cluster: Hardware) -> Recipe:
    """ZeRO-3 takes whole weights: what was quantized is counted as half precision there."""
    return replace(recipe, bits=None) if cluster.zero == 3 else recipe
