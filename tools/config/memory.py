"""What smoke runs measured of a recipe's memory: better than any estimate."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

from tuneloop.core.experiment import Forecast
from tuneloop.core.files import digest, read_model
from tuneloop.tools.config.context import ConfigContext
from tuneloop.tools.config.finalize import DECIDED
from tuneloop.tools.config.finding import Finding
from tuneloop.tools.config.memory_estimate import Hardware, MemoryEstimate, Method, Recipe, trained_parameters
from tuneloop.tools.config.memory_estimate import estimate_memory as estimate

# A config's memory: the recipe that it writes down, estimated, and compared with what the device has.

HALF = ("bfloat16", "float16")
LOW_RANK = ("galore", "apollo", "badam")
# What the user can do about each component, and the key that does it.
CURES = {
    "activations": ("per_device_train_batch_size", "lower per_device_train_batch_size or cutoff_len"),
    "logits": ("per_device_train_batch_size", "lower per_device_train_batch_size or cutoff_len"),
}
SMALLER = ("finetuning_type", "write finetuning_type: lora")
QUANTIZED = ("quantization_bit", "write quantization_bit: 4, or take a smaller model")


def estimate_memory(
    context: ConfigContext, cluster: Hardware | None = None, tokens: int | None = None
) -> MemoryEstimate:
    """Bytes one device needs; `tokens`: of the longest row, where the data are known (default: `cutoff_len`)."""
    return estimate(context.model.shape, recipe_of(context, tokens), cluster or _hardware(context))


def _hardware(context: ConfigContext) -> Hardware:
    """One device of those that the training is split over."""
    if context.device == "cpu":
        return Hardware(device="cpu")
    stage = 3 if context.sharding.startswith("fsdp") else context.zero
    return Hardware("cuda", context.processes, stage if stage in (1, 2, 3) else 0, "offload" in context.sharding)  # type: ignore[arg-type]


def recipe_of(context: ConfigContext, tokens: int | None = None) -> Recipe:
    """The part of the config that costs memory, defaults filled in."""
    cutoff = int(context.get("cutoff_len"))
    targets = str(context.get("lora_target"))
    low_rank = next((name for name in LOW_RANK if context.set(f"use_{name}")), "")
    method = context.method if context.method in get_args(Method) else "full"
    return Recipe(
        method=method,  # type: ignore[arg-type]
        precision=_precision(context),  # type: ignore[arg-type]
        tokens=min(cutoff, tokens or cutoff),
        batch=context.rows or int(context.get("per_device_train_batch_size")),
        optimizer=str(context.get("optim")),
        low_rank=low_rank,  # type: ignore[arg-type]
        rank=_rank(context, method, low_rank),
        targets=() if targets == "all" else tuple(name.strip().split(".")[-1] for name in targets.split(",")),
        trained_layers=int(context.get("freeze_trainable_layers")),
        bits=context.get("quantization_bit"),
        nested=bool(context.get("double_quantization")),
        checkpointing=not context.set("disable_gradient_checkpointing"),
        fused_attention=context.get("flash_attn") != "disabled",
        half_stored=context.model.dtype in HALF,
        accumulates=int(context.get("gradient_accumulation_steps") or 1) > 1,
    )


def _precision(context: ConfigContext) -> str:
    """The computing precision; a CPU trains in float32."""
    if context.device == "cpu":
        return "fp32"
    return next(iter(context.set("pure_bf16", "bf16", "fp16")), "fp32")


def _rank(context: ConfigContext, method: str, low_rank: str) -> int:
    key = (
        f"{low_rank}_rank" if low_rank in ("galore", "apollo") else "oft_block_size" if method == "oft" else "lora_rank"
    )
    value: Any = context.get(key)
    return max(1, int(value or 1))


def memory_finding(context: ConfigContext, available: int) -> Finding | None:
    """A finding when the estimate is near or above `available` bytes.

    On a GPU no error where only rows as long as `cutoff_len` would be too large: the data may be shorter.
    """
    need = estimate_memory(context)
    least = need if context.device == "cpu" else estimate_memory(context, tokens=least_tokens(context))
    if context.device == "cpu":  # which all processes of a node share
        available //= -(-context.processes // context.nodes)
    if need.total <= 0.9 * available:
        return None
    surely = least.total > 1.3 * available
    need = least if surely else need
    parts = {name: size for name, size in need.components.items() if name != "runtime"}
    largest = max(parts, key=lambda name: parts[name])
    key, cure = CURES.get(largest) or (SMALLER if context.method == "full" else QUANTIZED)
    size = f"{format_gib(need.total)} ({largest} {format_gib(parts[largest])}) of {format_gib(available)}"
    where = "" if surely or least == need else " where rows have cutoff_len tokens"
    level = "error" if surely else "warning"
    return Finding(level, context.config.lines.get(key, 0), key, f"needs about {size}{where}; {cure}")  # type: ignore[arg-type]


def least_tokens(context: ConfigContext, longest: int | None = None) -> int:
    """Tokens that the longest row has at least: `longest`, where the data are known; of packed rows `cutoff_len`."""
    packs = context.set("packing", "neat_packing") or (context.stage == "pt" and context.get("packing") is not False)
    return int(context.get("cutoff_len")) if packs else max(1, longest or 1)


def largest_batch(context: ConfigContext, available: int, tokens: int | None = None) -> int:
    """Rows at a time, halved from those of the config, whose estimate fits `available` bytes; 0: not even one."""
    batch = int(context.get("per_device_train_batch_size"))
    recipe, where = recipe_of(context, tokens), _hardware(context)
    while batch and estimate(context.model.shape, replace(recipe, batch=batch), where).total > available:
        batch //= 2
    return batch


def format_gib(count: float) -> str:
    """Bytes in words."""
    return f"{count / (1 << 30):.1f} GiB"


# How many bytes a training writes, estimated from the model card and the config; generous by design.

SMALL = 64 << 20  # tokenizer, states, logs


def saved_model_bytes(context: ConfigContext) -> int:
    """What is saved of the model: an adapter, or all of it in float32."""
    if context.method in ("lora", "oft"):
        return 4 * trained_parameters(context.model.shape, recipe_of(context)) + SMALL
    return 4 * context.model.parameters + SMALL


def checkpoint_bytes(context: ConfigContext) -> int:
    """Model and optimizer."""
    whole = Hardware(device="cpu" if context.device == "cpu" else "cuda")  # however it is split
    return saved_model_bytes(context) + estimate_memory(context, whole).optimizer


def training_bytes(context: ConfigContext) -> int:
    """The most that lies there at once: kept checkpoints, the one that is being written, the final model."""
    return (int(DECIDED["save_total_limit"]) + 1) * checkpoint_bytes(context) + saved_model_bytes(context)


def recipe_key(case: ConfigContext, model: str) -> str:
    """The same for what needs the same memory; `model` is the base model's fingerprint."""
    split = (f"{case.processes} {case.sharding}",) if case.processes > 1 else ()
    return digest(model, case.device, repr(sorted(asdict(recipe_of(case)).items())), *split)


def measured_memory(experiments: Path, key: str) -> tuple[int, int] | None:
    """Bytes that the newest smoke run of this recipe took of its device, and its experiment; None: there was none."""
    for file in sorted(experiments.glob("*/forecast.json"), reverse=True):
        found = read_model(file, Forecast)
        if found.recipe == key:
            return found.device_memory or found.memory, int(file.parent.name)
    return None
