"""Shapes of well-known decoders, counted from their config.json: the reference for shapes read from weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuneloop.tools.config.model_shape import LinearGroup, ModelShape, attention_widths, sizes_of_config


def config(
    kind: str, layers: int, hidden: int, wide: int, heads: int, keys: int, vocab: int, **rest: Any
) -> dict[str, Any]:
    return {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": wide,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "vocab_size": vocab,
        **rest,
    }


def shape_of_config(config: Mapping[str, Any]) -> ModelShape:
    """Counted from config.json alone."""
    text: Mapping[str, Any] = config.get("text_config") or config
    kind = str(text.get("model_type", ""))
    family, sizes = FAMILIES[kind], sizes_of_config(config)
    layers, hidden, vocab = sizes["layers"], sizes["hidden"], sizes["vocab"]
    query, key, head = attention_widths(text, hidden)
    linears = attention_matrices(family, hidden, query, key, layers) | feed_forward(family, text, hidden, layers)
    biases = layers * (query + 2 * key) if family.qkv_bias else 0
    norms = layers * (family.norms * hidden + (2 * head if family.head_norms else 0)) + hidden
    tied = text.get("tie_word_embeddings", family.tied)
    return ModelShape(
        **sizes, embedding=vocab * hidden, head=0 if tied else vocab * hidden, rest=biases + norms, linears=linears
    )


@dataclass(frozen=True)
class ArchitectureFamily:
    """How architectures of the Llama kind differ."""

    qkv_bias: bool = False
    head_norms: bool = False
    norms: int = 2
    tied: bool = False
    fused: bool = False
    experts: str = ""


FAMILIES = {
    "llama": ArchitectureFamily(),
    "mistral": ArchitectureFamily(),
    "qwen2": ArchitectureFamily(qkv_bias=True),
    "qwen3": ArchitectureFamily(head_norms=True),
    "gemma": ArchitectureFamily(tied=True),
    "gemma2": ArchitectureFamily(tied=True, norms=4),
    "gemma3_text": ArchitectureFamily(tied=True, norms=4, head_norms=True),
    "phi3": ArchitectureFamily(fused=True),
    "mixtral": ArchitectureFamily(experts="num_local_experts"),
    "qwen3_moe": ArchitectureFamily(head_norms=True, experts="num_experts"),
}


def attention_matrices(
    family: ArchitectureFamily, hidden: int, query: int, key: int, layers: int
) -> dict[str, LinearGroup]:
    if family.fused:
        return {"qkv_proj": LinearGroup(query + 2 * key, hidden, layers), "o_proj": LinearGroup(hidden, query, layers)}
    return {
        "q_proj": LinearGroup(query, hidden, layers),
        "k_proj": LinearGroup(key, hidden, layers),
        "v_proj": LinearGroup(key, hidden, layers),
        "o_proj": LinearGroup(hidden, query, layers),
    }


def feed_forward(
    family: ArchitectureFamily, text: Mapping[str, Any], hidden: int, layers: int
) -> dict[str, LinearGroup]:
    wide = int(text.get("intermediate_size") or 0)
    if family.fused:
        return {"gate_up_proj": LinearGroup(2 * wide, hidden, layers), "down_proj": LinearGroup(hidden, wide, layers)}
    if not family.experts:
        both = {name: LinearGroup(wide, hidden, layers) for name in ("gate_proj", "up_proj")}
        return {**both, "down_proj": LinearGroup(hidden, wide, layers)}
    experts = int(text.get(family.experts) or 0)
    wide = int(text.get("moe_intermediate_size") or wide)
    names = ("w1", "w3", "w2") if family.experts == "num_local_experts" else ("gate_proj", "up_proj", "down_proj")
    inner = {name: LinearGroup(wide, hidden, layers * experts) for name in names[:2]}
    return {
        "gate": LinearGroup(experts, hidden, layers),
        **inner,
        names[2]: LinearGroup(hidden, wide, layers * experts),
    }
