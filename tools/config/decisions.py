"""The eight decisions that settle which parameters matter: their values, what each means and what it writes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuneloop.core.errors import ToolError
from tuneloop.tools.config.aliases import Alias, alias_of, squash, zero


@dataclass(frozen=True)
class Value:
    """One value of a decision; `decision_lines`: the lines of train.yaml that carry it out."""

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
                {"deepspeed": zero(3)},
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


VALUES: Mapping[str, Alias] = {
    squash(value.name): Alias(next(iter(value.writes), ""), {dimension.name: value.name})
    for dimension in DIMENSIONS
    for value in dimension.values
}
# Other ways to write a decision's own name.
KEYS = {
    "finetuningtype": "method",
    "finetuningmethod": "method",
    "trainingstage": "stage",
    "distributedtraining": "distributed",
}


def method_named(text: str) -> Alias | None:
    """What a word such as `qlora`, `4bit` or `zero3` decides and writes; None for one that decides nothing."""
    alias = VALUES.get(squash(text)) or alias_of(text)
    return alias if alias is not None and alias.is_method else None


def decision_named(text: str) -> str | None:
    """The decision of that name."""
    plain = squash(text)
    return KEYS.get(plain) or next((name for name in BY_NAME if squash(name) == plain), None)


def check_decisions(decisions: Mapping[str, str]) -> dict[str, str]:
    """The decisions with aliases such as `method: qlora` read; what is said outright wins over what an alias implies.

    Raises ToolError that names the closest decision or the values there are.
    """
    found: dict[str, str] = {}
    implied: dict[str, str] = {}
    for key, value in decisions.items():
        name, said = decision_named(key), squash(str(value))
        if name is None:
            close = difflib.get_close_matches(key.strip().lower(), BY_NAME, n=1)
            hint = f"did you mean {close[0]}?" if close else f"right is one of {', '.join(BY_NAME)}"
            raise ToolError(f"no decision {key!r}: {hint}")
        alias = alias_of(str(value))
        meant = (said, f"{said}bit", squash(alias.parameter) if alias else said)
        if own := next((known for known in BY_NAME[name].names if squash(known) in meant), None):
            found[name] = own
        elif alias and alias.is_method:
            implied |= alias.decisions
        else:
            raise ToolError(f"{name}={value}: right is one of {', '.join(BY_NAME[name].names)}")
    return implied | found


def complete_decisions(decisions: Mapping[str, str]) -> dict[str, str]:
    """All eight, in order; what is not decided is assumed. Raises ToolError as `check_decisions`."""
    return DEFAULTS | check_decisions(decisions)


def decision_conflicts(decisions: Mapping[str, str]) -> list[str]:
    """Why the engine refuses a combination, in sentences; [] when it takes it."""
    d = complete_decisions(decisions)
    found = []
    if d["quantization"] != "none" and d["method"] not in ("lora", "oft"):
        found.append(f"a quantized base model works with method lora or oft only, not {d['method']}")
    if d["optimizer"] != "standard" and d["method"] == "lora":
        found.append(f"{d['optimizer']} does not go with lora; it is for method full or freeze")
    if d["optimizer"] in ("apollo", "galore") and d["distributed"] == "deepspeed":
        found.append(f"{d['optimizer']} does not go with deepspeed")
    return found


def decision_lines(decisions: Mapping[str, str]) -> dict[str, Any]:
    """The lines of train.yaml that the decisions and their aliases write. Raises ToolError as `check_decisions`."""
    made = check_decisions(decisions)
    found: dict[str, Any] = {}
    for dimension in DIMENSIONS:
        if dimension.name in made:
            found |= dimension.value(made[dimension.name]).writes
    for value in decisions.values():
        alias = alias_of(str(value))
        found |= alias.writes if alias else {}
    return found
