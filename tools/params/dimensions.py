"""The eight decisions that settle which parameters matter: their values, what each means and what it writes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuneloop.core.errors import ToolError


@dataclass(frozen=True)
class Value:
    """One value of a decision; `writes`: the lines of train.yaml that carry it out."""

    name: str
    meaning: str
    writes: Mapping[str, Any]


@dataclass(frozen=True)
class Dimension:
    """One decision; the first value is assumed when nothing is said."""

    name: str
    question: str
    values: tuple[Value, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The values' names."""
        return tuple(value.name for value in self.values)

    def value(self, name: str) -> Value:
        """The value of that name. Raises KeyError."""
        return {value.name: value for value in self.values}[name]


def _stage(name: str, meaning: str) -> Value:
    return Value(name, meaning, {"stage": name})


def _method(name: str, meaning: str) -> Value:
    return Value(name, meaning, {"finetuning_type": name})


DIMENSIONS: tuple[Dimension, ...] = (
    Dimension(
        "stage",
        "What is learned?",
        (
            _stage("sft", "supervised fine-tuning: answers to instructions"),
            _stage("pt", "pre-training on plain text"),
            _stage("rm", "a reward model from preference pairs"),
            _stage("ppo", "reinforcement learning against a reward model"),
            _stage("dpo", "preference pairs without a reward model (DPO, ORPO, SimPO)"),
            _stage("kto", "single answers marked good or bad"),
        ),
    ),
    Dimension(
        "method",
        "Which weights change?",
        (
            _method("lora", "small matrices beside the linear layers; least memory"),
            _method("freeze", "a few layers, the others stay frozen"),
            _method("oft", "orthogonal matrices in front of the linear layers"),
            _method("full", "all weights; most memory"),
        ),
    ),
    Dimension(
        "quantization",
        "In how many bits is the base model held?",
        (
            Value("none", "as stored", {}),
            Value("4bit", "4 bits (QLoRA); with lora or oft only", {"quantization_bit": 4}),
            Value("8bit", "8 bits; with lora or oft only", {"quantization_bit": 8}),
        ),
    ),
    Dimension(
        "optimizer",
        "Which optimizer?",
        (
            Value("standard", "AdamW or another value of optim", {}),
            Value("apollo", "APOLLO: gradients projected to a low rank; not with lora", {"use_apollo": True}),
            Value("badam", "BAdam: one block of layers at a time; not with lora", {"use_badam": True}),
            Value("galore", "GaLore: gradients projected to a low rank; not with lora", {"use_galore": True}),
        ),
    ),
    Dimension(
        "distributed",
        "On how many devices, and split how?",
        (
            Value("single", "one device", {}),
            Value("ddp", "every device holds the whole model", {}),
            Value(
                "deepspeed",
                "optimizer, gradients, weights split by ZeRO",
                {"deepspeed": "examples/deepspeed/ds_z3_config.json"},
            ),
            Value("fsdp", "weights split by PyTorch", {"fsdp": "full_shard auto_wrap"}),
        ),
    ),
    Dimension(
        "precision",
        "In which numbers is computed?",
        (
            Value("bf16", "bfloat16 mixed with float32; newer accelerators", {"bf16": True}),
            Value("fp16", "float16 mixed with float32; older accelerators", {"fp16": True}),
            Value("fp32", "float32; the CPU", {}),
            Value("pure_bf16", "bfloat16 only", {"pure_bf16": True}),
        ),
    ),
    Dimension(
        "data_strategy",
        "How do records become batches?",
        (
            Value("normal", "tokenized once, one record a row", {}),
            Value("streaming", "read while training; needs max_steps", {"streaming": True, "max_steps": 1000}),
            Value("packing", "several records in one row of cutoff_len tokens", {"packing": True}),
        ),
    ),
    Dimension(
        "modality",
        "What is in the records?",
        (
            Value("text", "text only", {}),
            Value("multimodal", "images, video or audio beside the text", {}),
        ),
    ),
)
BY_NAME = {dimension.name: dimension for dimension in DIMENSIONS}
DEFAULTS = {dimension.name: dimension.names[0] for dimension in DIMENSIONS}


def checked(decisions: Mapping[str, str]) -> dict[str, str]:
    """The decisions, lower case. Raises ToolError that names the closest dimension or the values there are."""
    found: dict[str, str] = {}
    for key, value in decisions.items():
        name, said = key.strip().lower(), str(value).strip().lower()
        if name not in BY_NAME:
            close = difflib.get_close_matches(name, BY_NAME, n=1)
            hint = f"did you mean {close[0]}?" if close else f"right is one of {', '.join(BY_NAME)}"
            raise ToolError(f"no decision {key!r}: {hint}")
        if said not in BY_NAME[name].names:
            raise ToolError(f"{name}={value}: right is one of {', '.join(BY_NAME[name].names)}")
        found[name] = said
    return found


def completed(decisions: Mapping[str, str]) -> dict[str, str]:
    """All eight, in order; what is not decided is assumed. Raises ToolError as `checked`."""
    return DEFAULTS | checked(decisions)


def collisions(decisions: Mapping[str, str]) -> list[str]:
    """Why the engine refuses a combination, in sentences; [] when it takes it."""
    d = completed(decisions)
    found = []
    if d["quantization"] != "none" and d["method"] not in ("lora", "oft"):
        found.append(f"a quantized base model works with method lora or oft only, not {d['method']}")
    if d["optimizer"] != "standard" and d["method"] == "lora":
        found.append(f"{d['optimizer']} does not go with lora; it is for method full or freeze")
    if d["optimizer"] in ("apollo", "galore") and d["distributed"] == "deepspeed":
        found.append(f"{d['optimizer']} does not go with deepspeed")
    return found


def writes(decisions: Mapping[str, str]) -> dict[str, Any]:
    """The lines of train.yaml that the decisions write."""
    found: dict[str, Any] = {}
    for dimension in DIMENSIONS:
        if dimension.name in decisions:
            found |= dimension.value(decisions[dimension.name]).writes
    return found
