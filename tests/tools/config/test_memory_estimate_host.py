"""The estimate for a CPU against real trainings: resident memory at most of forked jobs on the real engine, two steps each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.config.known_shapes import config, shape_of_config
from tuneloop.tools.config.memory_estimate import Hardware, Recipe, estimate_memory

HOST = Hardware(device="cpu")
TINY = shape_of_config({**config("qwen2", 3, 128, 384, 4, 2, 547), "tie_word_embeddings": True})
LARGER = shape_of_config({**config("qwen2", 12, 640, 1728, 10, 2, 16384), "tie_word_embeddings": True})
SMOLLM2 = shape_of_config({**config("llama", 30, 576, 1536, 9, 3, 49152), "tie_word_embeddings": True})
FULL = Recipe(method="full", precision="fp32", checkpointing=False)
LORA, FREEZE = replace(FULL, method="lora"), replace(FULL, method="freeze")
OFT = replace(FULL, method="oft", rank=32)
SAVING = {"checkpointing": True}
HALF = {"checkpointing": True, "half_stored": True}
# MiB; rows of one length first, then padded ones.
MEASURED = [
    (TINY, replace(FULL, batch=16, tokens=1024), 1193),
    (TINY, replace(LORA, batch=16, tokens=512), 956),
    (TINY, replace(FULL, batch=8, tokens=512, **SAVING), 571),  # type: ignore[arg-type]
    (TINY, replace(FREEZE, batch=1, tokens=128), 440),
    (LARGER, replace(FULL, batch=1, tokens=1024, **SAVING), 1749),  # type: ignore[arg-type]
    (LARGER, replace(FULL, batch=4, tokens=256), 2159),
    (LARGER, replace(LORA, batch=8, tokens=128), 1905),
    (LARGER, replace(LORA, batch=2, tokens=512, **SAVING), 1119),  # type: ignore[arg-type]
    (LARGER, replace(FREEZE, batch=4, tokens=128), 909),
    (LARGER, replace(FULL, batch=2, tokens=384, optimizer="sgd"), 1349),
    (LARGER, replace(LORA, batch=4, tokens=256, rank=64, targets=("q_proj", "v_proj")), 1534),
    (LARGER, replace(FREEZE, batch=2, tokens=512, trained_layers=4), 1118),
    (TINY, replace(LORA, batch=4, tokens=1024, **SAVING), 599),  # type: ignore[arg-type]
    (TINY, replace(FREEZE, batch=16, tokens=512, **SAVING), 673),  # type: ignore[arg-type]
    (TINY, replace(FULL, batch=16, tokens=1024), 1449),
    (TINY, replace(FULL, batch=12, tokens=768), 1019),
    (TINY, replace(LORA, batch=8, tokens=512), 731),
    (LARGER, replace(FULL, batch=4, tokens=200, **SAVING), 1720),  # type: ignore[arg-type]
    (SMOLLM2, replace(LORA, batch=4, tokens=80, **HALF), 1258),  # type: ignore[arg-type]
    (SMOLLM2, replace(FULL, batch=4, tokens=80, **HALF), 3000),  # type: ignore[arg-type]
    (SMOLLM2, replace(LORA, batch=4, tokens=72, **HALF), 1130),  # type: ignore[arg-type]
    (SMOLLM2, replace(LORA, batch=4, tokens=112, **HALF), 1294),  # type: ignore[arg-type]
    (SMOLLM2, replace(LORA, batch=4, tokens=112, rank=32, **HALF), 1297),  # type: ignore[arg-type]
    (SMOLLM2, replace(LORA, batch=4, tokens=208, **HALF), 1813),  # type: ignore[arg-type]
    (SMOLLM2, replace(LORA, batch=4, tokens=112, half_stored=True), 1633),
    (SMOLLM2, replace(OFT, batch=4, tokens=72, **HALF), 988),  # type: ignore[arg-type]
    (SMOLLM2, replace(OFT, batch=4, tokens=112, **HALF), 1072),  # type: ignore[arg-type]
    (SMOLLM2, replace(OFT, batch=4, tokens=208, **HALF), 1375),  # type: ignore[arg-type]
    (SMOLLM2, replace(FREEZE, batch=4, tokens=112, **HALF), 1362),  # type: ignore[arg-type]
    (SMOLLM2, replace(FREEZE, batch=4, tokens=208, **HALF), 1620),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("shape", "recipe", "took"), MEASURED)
def test_within_15_percent_of_real_trainings(shape, recipe: Recipe, took: int) -> None:
    said = estimate_memory(shape, recipe, HOST).total / (1 << 20)
    assert abs(said / took - 1) <= 0.15, f"{said:.0f} MiB, measured {took}"


@given(
    st.builds(
        Recipe,
        method=st.sampled_from(["full", "freeze", "lora", "oft"]),
        precision=st.just("fp32"),
        tokens=st.integers(1, 4096),
        batch=st.integers(1, 16),
        rank=st.integers(1, 128),
        checkpointing=st.booleans(),
        fused_attention=st.booleans(),
        half_stored=st.booleans(),
    )
)
def test_more_of_anything_never_needs_less(recipe: Recipe) -> None:
    need = estimate_memory(LARGER, recipe, HOST)
    assert all(part >= 0 for part in need.components.values())
    for more in (replace(recipe, batch=recipe.batch + 1), replace(recipe, tokens=recipe.tokens + 1)):
        assert estimate_memory(LARGER, more, HOST).total >= need.total


def test_frozen_layers_save_nothing() -> None:
    two, all_ = (estimate_memory(LARGER, replace(FREEZE, trained_layers=n), HOST).activations for n in (2, 12))
    assert two < all_ / 4
    # Counted from below: everything above a trained layer is passed on the way back.
    assert estimate_memory(LARGER, replace(FREEZE, trained_layers=-2), HOST).activations > 0.9 * all_
