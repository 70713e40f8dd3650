"""How a run's training is split over the GPUs of a machine: by DDP, DeepSpeed's ZeRO or PyTorch's FSDP, and which of them fits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tuneloop.tools.config.aliases import zero
from tuneloop.tools.config.config_text import Config
from tuneloop.tools.config.context import ConfigContext
from tuneloop.tools.config.memory import estimate_memory, least_tokens
from tuneloop.tools.config.rules_distributed import distributed_rules

AUTO, DDP = "auto", "ddp"
# The least split first: each step costs more talk between GPUs.
BY_DEEPSPEED = (DDP, "zero2", "zero3", "zero3_offload")
BY_TORCH = (DDP, "fsdp", "fsdp_offload")
ROOM = 0.9  # of a GPU's memory, for an estimate that is a little too low


@dataclass(frozen=True)
class Devices:
    """What a training may use: `processes` on each node, each a GPU with `memory` bytes (None: not known), split as `asked`."""

    processes: int = 1
    asked: str = AUTO
    memory: int | None = None
    nodes: int = 1


def sharding_values(sharding: str) -> dict[str, Any]:
    """The lines of train.yaml that split a training so."""
    if sharding.startswith("zero"):
        return {"deepspeed": zero(int(sharding[4]), sharding.endswith("_offload"))}
    if not sharding.startswith("fsdp"):
        return {}
    # Whole states in checkpoints: another number of GPUs can go on with them.
    config = {"use_orig_params": True, "state_dict_type": "FULL_STATE_DICT"}
    return {"fsdp": "full_shard auto_wrap" + " offload" * sharding.endswith("_offload"), "fsdp_config": config}


def share_step(batch: int, accumulation: int, processes: int, nodes: int = 1) -> tuple[int, int]:
    """How many processes share a step, and rows at a time of each, as the engine's `lf_processes.py` does it."""
    counts = (n * each for n in range(1, nodes + 1) for each in range(1, processes + 1))
    count = max(count for count in counts if batch * accumulation % count == 0)
    return count, batch * math.gcd(accumulation, count) // count


def distribute(context: ConfigContext, devices: Devices, longest: int | None = None) -> ConfigContext:
    """The context of a run's training on these devices: its share of a step, and how its state is split.

    `longest`: tokens of the longest row; None: not known, and weights and optimizer alone say what fits.
    """
    batch, accumulation = (
        int(context.get(key) or 1) for key in ("per_device_train_batch_size", "gradient_accumulation_steps")
    )
    count, rows = share_step(batch, accumulation, devices.processes, devices.nodes)
    shared = replace(context, processes=count, nodes=devices.nodes, rows=rows if count > 1 else None)
    if count == 1:
        return shared
    if devices.asked != AUTO:
        return split_by(shared, devices.asked)
    found = list(_possible(shared))
    memory, tokens = devices.memory, least_tokens(context, longest)
    fits = (one for one in found if memory is None or estimate_memory(one, tokens=tokens).total <= ROOM * memory)
    return next(fits, found[-1])


def split_by(context: ConfigContext, sharding: str) -> ConfigContext:
    """The same with the lines of that sharding."""
    values = {**context.config.values, **sharding_values(sharding)}
    return replace(context, sharding=sharding, config=Config(values, context.config.lines, context.config.overrides))


def _possible(context: ConfigContext) -> Iterator[ConfigContext]:
    """By DDP, and by every other way that the engine has and that goes with the recipe."""
    ways = BY_DEEPSPEED if context.catalog.has_package("deepspeed") else BY_TORCH
    for sharding in ways if context.device != "cpu" else (DDP,):
        split = split_by(context, sharding)
        if sharding == DDP or not any(level == "error" for level, _, _ in distributed_rules(split)):
            yield split
