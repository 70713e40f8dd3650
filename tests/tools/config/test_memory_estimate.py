"""The estimate against LLaMA-Factory's published table, and against what must grow or shrink."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.config.known_shapes import config, shape_of_config
from tuneloop.tools.config.memory_estimate import Hardware, Recipe, estimate_memory
from tuneloop.tools.config.model_shape import ModelShape

# Models that the table's columns stand for: Llama-2-7B, Phi-3-medium, Yi-34B, Llama-2-70B.
COLUMNS = {
    7: shape_of_config(config("llama", 32, 4096, 11008, 32, 32, 32000)),
    14: shape_of_config(config("phi3", 40, 5120, 17920, 40, 10, 32064)),
    30: shape_of_config(config("llama", 60, 7168, 20480, 56, 8, 64000)),
    70: shape_of_config(config("llama", 80, 8192, 28672, 64, 8, 32000)),
}
# GB, from the README of LLaMA-Factory 0.9.5 ("Hardware Requirement"). It names no row length: 1,024 tokens here.
TABLE = {
    "full": (Recipe(method="full"), (120, 240, 600, 1200)),
    "pure_bf16": (Recipe(method="full", precision="pure_bf16"), (60, 120, 300, 600)),
    "lora": (Recipe(), (16, 32, 64, 160)),
    "8 bits": (Recipe(bits=8), (10, 20, 40, 80)),
    "4 bits": (Recipe(bits=4), (6, 12, 24, 48)),
    "2 bits": (Recipe(bits=2), (4, 8, 16, 24)),
}
SEVEN = COLUMNS[7]


@pytest.mark.parametrize("row", TABLE)
@pytest.mark.parametrize("column", COLUMNS)
def test_within_20_percent_of_the_published_table(row: str, column: int) -> None:
    recipe, published = TABLE[row]
    want = published[list(COLUMNS).index(column)]
    got = estimate_memory(COLUMNS[column], replace(recipe, tokens=1024)).total / 1e9
    assert abs(got / want - 1) <= 0.2, f"{got:.1f} GB, published {want} GB"


# Bytes that PyTorch allocated at most in three steps of transformers' Trainer or of our own job, rows of 1,024 tokens, on
# an H100 (torch 2.11, transformers 5.6, peft 0.18.1); random weights in the shapes of SmolLM2-135M and Qwen2-1.5B.
SMALL, LARGE = (
    shape_of_config(config("llama", 30, 576, 1536, 9, 3, 49152, tie_word_embeddings=True)),
    shape_of_config(config("qwen2", 28, 1536, 8960, 12, 2, 151936, tie_word_embeddings=True)),
)
FULL, LORA = Recipe(method="full", tokens=1024), Recipe(tokens=1024)
MEASURED = {
    "small, LoRA": (SMALL, replace(LORA, batch=16), 10_634_360_832),
    "small, full": (SMALL, replace(FULL, batch=16), 12_514_849_280),
    "small, pure_bf16": (SMALL, replace(FULL, batch=16, precision="pure_bf16"), 11_053_635_072),
    "small, LoRA, all kept": (SMALL, replace(LORA, batch=8, checkpointing=False), 11_717_440_512),
    "small, full, all kept": (SMALL, replace(FULL, batch=8, checkpointing=False), 14_238_960_128),
    "large, LoRA": (LARGE, replace(LORA, batch=8), 18_820_866_560),
    "large, LoRA, all kept": (LARGE, replace(LORA, batch=2, checkpointing=False), 13_241_794_048),
    "large, 4 bits": (LARGE, replace(LORA, batch=4, bits=4), 9_180_314_112),
    "large, full, the forward pass": (LARGE, replace(FULL, batch=4), 28_585_744_896),
    "large, full, the backward pass": (LARGE, replace(FULL, batch=1), 25_595_273_728),
    "large, full, the optimizer": (LARGE, replace(FULL, batch=1, optimizer="adamw_torch"), 30_845_319_168),
    "large, full, all kept": (LARGE, replace(FULL, batch=2, checkpointing=False), 32_237_058_560),
}


@pytest.mark.parametrize("case", MEASURED)
def test_within_3_percent_of_what_a_gpu_held(case: str) -> None:
    shape, recipe, held = MEASURED[case]
    need = estimate_memory(shape, recipe)
    got = need.total - need.runtime  # the driver's own share is not PyTorch's
    assert abs(got / held - 1) <= 0.03, f"{got / 1e9:.2f} GB, measured {held / 1e9:.2f} GB"


def test_summed_gradients_are_there_when_the_logits_are() -> None:
    once, summed = (estimate_memory(LARGE, replace(FULL, batch=4, accumulates=more)) for more in (False, True))
    assert (once.gradients, summed.gradients) == (0, 4 * LARGE.parameters)
    assert summed.total == once.total + summed.gradients


@given(
    st.builds(
        Recipe,
        method=st.sampled_from(["full", "freeze", "lora", "oft"]),
        precision=st.sampled_from(["fp32", "bf16", "pure_bf16"]),
        tokens=st.integers(1, 8192),
        batch=st.integers(1, 16),
        rank=st.integers(1, 128),
        checkpointing=st.booleans(),
        accumulates=st.booleans(),
        fused_attention=st.booleans(),
        low_rank=st.sampled_from(["", "galore", "apollo", "badam"]),
    )
)
def test_more_of_anything_never_needs_less(recipe: Recipe) -> None:
    need = estimate_memory(SEVEN, recipe)
    assert need.total == sum(need.components.values())
    assert all(size >= 0 for size in need.components.values())
    for more in (replace(recipe, batch=recipe.batch + 1), replace(recipe, tokens=recipe.tokens + 1)):
        assert estimate_memory(SEVEN, more).total >= need.total
    assert estimate_memory(SEVEN, replace(recipe, checkpointing=False)).activations >= (
        estimate_memory(SEVEN, replace(recipe, checkpointing=True)).activations
    )


def test_stages_of_zero_divide_what_they_say() -> None:
    recipe = Recipe(method="full")
    plain = estimate_memory(SEVEN, recipe)
    for zero, parts in (
        (1, {"optimizer"}),
        (2, {"optimizer", "gradients"}),
        (3, {"optimizer", "gradients", "weights"}),
    ):
        split = estimate_memory(SEVEN, recipe, Hardware(gpus=8, zero=zero))  # type: ignore[arg-type]
        for name in ("weights", "gradients", "optimizer"):
            whole = plain.components[name]
            assert split.components[name] == (whole // 8 if name in parts else whole)


def test_offloaded_states_leave_the_gpu() -> None:
    assert estimate_memory(SEVEN, Recipe(method="full"), Hardware(offload=True)).optimizer == 0


# Rows so short that the optimizer's step needs most.
PLAIN = Recipe(method="full", tokens=16, optimizer="adamw_torch")
FUSED = replace(PLAIN, optimizer="adamw_torch_fused")


def test_a_step_that_is_not_fused_has_temporaries_as_wide_as_the_weights() -> None:
    for precision, width in (("bf16", 4), ("pure_bf16", 2)):
        need = estimate_memory(SEVEN, replace(PLAIN, precision=precision))  # type: ignore[arg-type]
        assert need.buffers == width * SEVEN.parameters


def test_no_temporaries_where_the_step_is_another_one_or_on_the_cpu() -> None:
    for low_rank in ("galore", "apollo"):
        plain, fused = (estimate_memory(SEVEN, replace(r, low_rank=low_rank)) for r in (PLAIN, FUSED))
        assert plain == fused
    assert estimate_memory(SEVEN, PLAIN, Hardware(offload=True)) == estimate_memory(
        SEVEN, FUSED, Hardware(offload=True)
    )


def test_zero_divides_temporaries_and_half_copies() -> None:
    plain, fused = (estimate_memory(SEVEN, recipe, Hardware(gpus=8, zero=3)) for recipe in (PLAIN, FUSED))
    # Without temporaries the forward pass needs most, with a half copy of each weight.
    assert plain.buffers - fused.buffers == pytest.approx((4 - 2) * SEVEN.parameters / 8, rel=1e-6)


def test_lora_trains_what_its_rank_says() -> None:
    wide: ModelShape = SEVEN
    one = estimate_memory(wide, Recipe(rank=1, accumulates=True)).gradients
    assert estimate_memory(wide, Recipe(rank=64, accumulates=True)).gradients == 64 * one
    # rank × (inputs + outputs) of seven matrices in 32 layers, four bytes each
    assert one == 4 * 32 * (4 * (4096 + 4096) + 2 * (4096 + 11008) + (11008 + 4096))
