"""Parameters counted from config.json equal the published numbers."""

from __future__ import annotations

import pytest

from tests.tools.config.known_shapes import config, shape_of_config
from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.config.model_shape import shape_of_weights

PUBLISHED = {
    "Llama-2-7b": (config("llama", 32, 4096, 11008, 32, 32, 32000), 6_738_415_616),
    "Llama-2-70b": (config("llama", 80, 8192, 28672, 64, 8, 32000), 68_976_648_192),
    "Llama-3-8B": (config("llama", 32, 4096, 14336, 32, 8, 128256), 8_030_261_248),
    "Mistral-7B": (config("mistral", 32, 4096, 14336, 32, 8, 32000), 7_241_732_096),
    "Qwen2.5-0.5B": (config("qwen2", 24, 896, 4864, 14, 2, 151936, tie_word_embeddings=True), 494_032_768),
    "Qwen2.5-7B": (config("qwen2", 28, 3584, 18944, 28, 4, 152064), 7_615_616_512),
    "Qwen3-8B": (config("qwen3", 36, 4096, 12288, 32, 8, 151936, head_dim=128), 8_190_735_360),
    "gemma-2-9b": (config("gemma2", 42, 3584, 14336, 16, 8, 256000, head_dim=256), 9_241_705_984),
    "Phi-3-mini": (config("phi3", 32, 3072, 8192, 32, 32, 32064), 3_821_079_552),
    "Mixtral-8x7B": (
        config("mixtral", 32, 4096, 14336, 32, 8, 32000, num_local_experts=8, num_experts_per_tok=2),
        46_702_792_704,
    ),
    "Qwen3-30B-A3B": (
        config("qwen3_moe", 48, 2048, 6144, 32, 4, 151936, head_dim=128, moe_intermediate_size=768, num_experts=128),
        30_532_122_624,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_counts_what_is_published(name: str) -> None:
    given, parameters = PUBLISHED[name]
    assert shape_of_config(given).parameters == parameters


def test_weights_and_config_agree() -> None:
    given = config("qwen2", 2, 8, 12, 2, 1, 20)
    layer = {
        "self_attn.q_proj": (8, 8),
        "self_attn.k_proj": (4, 8),
        "self_attn.v_proj": (4, 8),
        "self_attn.o_proj": (8, 8),
        "mlp.gate_proj": (12, 8),
        "mlp.up_proj": (12, 8),
        "mlp.down_proj": (8, 12),
    }
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {
        f"model.layers.{i}.{name}.weight": ("F32", size) for i in range(2) for name, size in layer.items()
    }
    for i in range(2):
        for name, width in (("q", 8), ("k", 4), ("v", 4)):
            tensors[f"model.layers.{i}.self_attn.{name}_proj.bias"] = ("F32", (width,))
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{i}.{name}.weight"] = ("F32", (8,))
    tensors |= {"model.norm.weight": ("F32", (8,)), "model.embed_tokens.weight": ("F32", (20, 8))}
    tensors["lm_head.weight"] = ("F32", (20, 8))
    assert shape_of_weights(given, tensors) == shape_of_config(given)


def test_config_without_sizes_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="names no layers"):
        shape_of_weights({"model_type": "llama", "hidden_size": 8, "vocab_size": 8, "num_attention_heads": 1}, {})
