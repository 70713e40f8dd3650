"""A config's memory: the recipe that it writes down, estimated, and compared with what the device has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

from tuneloop.tools.memory import Cluster, MemoryEstimate, Recipe
from tuneloop.tools.memory import estimate_memory as estimate
from tuneloop.tools.memory.estimate import Method
from tuneloop.tools.params.finding import Finding
from tuneloop.tools.params.situation import Situation

LOW_RANK = ("galore", "apollo", "badam")
# What the user can do about each component, and the key that does it.
CURES = {
    "activations": ("per_device_train_batch_size", "lower per_device_train_batch_size or cutoff_len"),
    "logits": ("per_device_train_batch_size", "lower per_device_train_batch_size or cutoff_len"),
}
SMALLER = ("finetuning_type", "write finetuning_type: lora")
QUANTIZED = ("quantization_bit", "write quantization_bit: 4, or take a smaller model")


def estimate_memory(situation: Situation, cluster: Cluster | None = None, tokens: int | None = None) -> MemoryEstimate:
    """Bytes one device needs; `tokens`: of the longest row, where the data are known (default: `cutoff_len`)."""
    where = cluster or Cluster(device="cpu" if situation.device == "cpu" else "cuda")
    return estimate(situation.model.shape, recipe_of(situation, tokens), where)


def recipe_of(situation: Situation, tokens: int | None = None) -> Recipe:
    """The part of the config that costs memory, defaults filled in."""
    cutoff = int(situation.get("cutoff_len"))
    targets = str(situation.get("lora_target"))
    low_rank = next((name for name in LOW_RANK if situation.set(f"use_{name}")), "")
    method = situation.method if situation.method in get_args(Method) else "full"
    return Recipe(
        method=method,  # type: ignore[arg-type]
        precision=_precision(situation),  # type: ignore[arg-type]
        tokens=min(cutoff, tokens or cutoff),
        batch=int(situation.get("per_device_train_batch_size")),
        optimizer=str(situation.get("optim")),
        low_rank=low_rank,  # type: ignore[arg-type]
        rank=_rank(situation, method, low_rank),
        targets=() if targets == "all" else tuple(name.strip().split(".")[-1] for name in targets.split(",")),
        trained_layers=int(situation.get("freeze_trainable_layers")),
        bits=situation.get("quantization_bit"),
        nested=bool(situation.get("double_quantization")),
        checkpointing=not situation.set("disable_gradient_checkpointing"),
        fused_attention=situation.get("flash_attn") != "disabled",
    )


def _precision(situation: Situation) -> str:
    """The computing precision; a CPU trains in float32."""
    if situation.device == "cpu":
        return "fp32"
    return next(iter(situation.set("pure_bf16", "bf16", "fp16")), "fp32")


def _rank(situation: Situation, method: str, low_rank: str) -> int:
    key = (
        f"{low_rank}_rank" if low_rank in ("galore", "apollo") else "oft_block_size" if method == "oft" else "lora_rank"
    )
    value: Any = situation.get(key)
    return max(1, int(value or 1))


def memory_finding(situation: Situation, available: int) -> Finding | None:
    """A finding when the estimate is near or above `available` bytes."""
    need = estimate_memory(situation)
    if need.total <= 0.9 * available:
        return None
    parts = {name: size for name, size in need.components.items() if name != "runtime"}
    largest = max(parts, key=lambda name: parts[name])
    key, cure = CURES.get(largest) or (SMALLER if situation.method == "full" else QUANTIZED)
    text = f"needs about {gib(need.total)} ({largest} {gib(parts[largest])}) of {gib(available)}; {cure}"
    level = "error" if need.total > 1.3 * available else "warning"
    return Finding(level, situation.config.lines.get(key, 0), key, text)  # type: ignore[arg-type]


def largest_batch(situation: Situation, available: int, tokens: int | None = None) -> int:
    """Rows at a time, halved from those of the config, whose estimate fits `available` bytes; 0: not even one."""
    batch = int(situation.get("per_device_train_batch_size"))
    recipe, where = recipe_of(situation, tokens), Cluster(device="cpu" if situation.device == "cpu" else "cuda")
    while batch and estimate(situation.model.shape, replace(recipe, batch=batch), where).total > available:
        batch //= 2
    return batch


def gib(count: float) -> str:
    """Bytes in words."""
    return f"{count / (1 << 30):.1f} GiB"
