"""Comparisons: the switch first, then what each side has of its own."""

from __future__ import annotations

import pytest

from tuneloop.core.errors import ToolError
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.compare import compare, comparison_text, sides_of


@pytest.mark.parametrize(
    ("text", "sides"),
    [
        ("compare lora vs freeze", ["lora", "freeze"]),
        ("Compare lora, full and freeze", ["lora", "full", "freeze"]),
        ("compare bf16 with fp16", ["bf16", "fp16"]),
        ("lora VS. full", ["lora", "full"]),
        ("compare lora", []),
        ("lora and full", []),
    ],
)
def test_sides(text: str, sides: list[str]) -> None:
    assert sides_of(text) == sides


@pytest.mark.parametrize(
    ("sides", "switches"),
    [
        (("lora", "freeze"), ("finetuning_type",)),
        (("qlora", "lora"), ("quantization_bit", "finetuning_type")),
        (("dora", "rslora"), ("use_dora", "finetuning_type", "use_rslora")),
        (("orpo", "simpo"), ("pref_loss", "stage")),
        (("ZeRO-2", "zero3"), ("deepspeed",)),
        (("galore", "apollo", "badam"), ("use_galore", "use_apollo", "use_badam")),
        (("bf16", "fp16"), ("bf16", "fp16")),
        (("warmup_steps", "warmup ratio"), ("warmup_steps", "warmup_ratio")),
        (("cosine", "linear"), ("lr_scheduler_type",)),
        (("the lora method", "full fine-tuning?"), ("finetuning_type",)),
        (("quantization=none", "4bit"), ("quantization_bit",)),
    ],
)
def test_switches_come_first(sides: tuple[str, ...], switches: tuple[str, ...], catalog: Catalog) -> None:
    found = compare(catalog, sides)
    assert found.names[: len(switches)] == switches
    assert all(f"`{name}" in comparison_text(found, catalog) for name in switches)


def test_what_is_own_and_what_is_shared(catalog: Catalog) -> None:
    found = compare(catalog, ["lora", "freeze"])
    lora, freeze = found.sides
    assert {"lora_rank", "lora_alpha"} <= set(lora.own)
    assert {"freeze_trainable_layers", "freeze_trainable_modules"} <= set(freeze.own)
    assert "learning_rate" in found.shared
    assert not set(found.shared) & {*lora.own, *freeze.own}


def test_what_the_check_refuses_here_is_said(catalog: Catalog) -> None:
    text = comparison_text(compare(catalog, ["lora", "unsloth"]), catalog)
    assert ("unsloth, which the engine does not have" in text) is not catalog.has_package("unsloth")


@pytest.mark.parametrize("sides", [["lora"], ["lora", "LoRA"], ["lora", "nonsense"], list("abcde")])
def test_what_cannot_be_compared(sides: list[str], catalog: Catalog) -> None:
    with pytest.raises(ToolError, match="lora, freeze, oft, full"):
        compare(catalog, sides)
