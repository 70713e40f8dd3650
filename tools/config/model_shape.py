"""The matrices of a decoder: from the headers of its weights, or counted from config.json alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tuneloop.core.errors import InvalidRequestError

Tensors = Mapping[str, tuple[str, tuple[int, ...]]]
EMBEDDINGS = ("embed_tokens", "wte", "word_embeddings", "tok_embeddings")
HEADS = ("lm_head", "output", "embed_out")


@dataclass(frozen=True)
class LinearGroup:
    """`count` matrices of `outputs` × `inputs`."""

    outputs: int
    inputs: int
    count: int

    @property
    def size(self) -> int:
        """Parameters of all of them."""
        return self.outputs * self.inputs * self.count

    def adapter(self, rank: int) -> int:
        """Parameters of a LoRA of that rank on all of them."""
        return rank * (self.outputs + self.inputs) * self.count


@dataclass(frozen=True)
class ModelShape:
    """What decides about memory. `linears`: module name → its matrices inside the layers; `rest`: norms and biases.

    `wide` is the inner width of the feed-forward part that a token passes (all its experts together), `attended` the
    width of queries, keys and values together.
    """

    layers: int
    hidden: int
    vocab: int
    heads: int
    wide: int
    attended: int
    embedding: int
    head: int
    rest: int
    linears: Mapping[str, LinearGroup] = field(default_factory=dict)

    @property
    def inside(self) -> int:
        """Parameters of the matrices inside the layers: those that are quantized and adapted."""
        return sum(linear.size for linear in self.linears.values())

    @property
    def parameters(self) -> int:
        """All of them."""
        return self.inside + self.embedding + self.head + self.rest


def shape_of_weights(config: Mapping[str, Any], tensors: Tensors) -> ModelShape:
    """Exact: every tensor of the headers is counted. Raises InvalidRequestError when config.json lacks a size."""
    linears: dict[str, LinearGroup] = {}
    embedding = head = rest = 0
    for name, (_, shape) in tensors.items():
        words = name.split(".")
        if words[-1] == "weight" and len(shape) == 2 and re.search(r"\.\d+\.", name):
            known = linears.get(words[-2])
            linears[words[-2]] = LinearGroup(shape[0], shape[1], 1 + (known.count if known else 0))
        elif words[-1] == "weight" and len(words) > 1 and words[-2] in EMBEDDINGS:
            embedding += prod(shape)
        elif words[-1] == "weight" and len(words) > 1 and words[-2] in HEADS:
            head += prod(shape)
        else:
            rest += prod(shape)
    return ModelShape(**_sizes(config), embedding=embedding, head=head, rest=rest, linears=linears)


def shape_of_config(config: Mapping[str, Any]) -> ModelShape:
    """Counted from config.json alone. Raises InvalidRequestError for an architecture whose parts are not known here."""
    text: Mapping[str, Any] = config.get("text_config") or config
    kind = str(text.get("model_type", ""))
    if kind not in FAMILIES:
        raise InvalidRequestError(
            f"model_type {kind!r} cannot be counted from config.json; right is a folder with weights, or one of "
            f"{', '.join(sorted(FAMILIES))}"
        )
    family, sizes = FAMILIES[kind], _sizes(config)
    layers, hidden, vocab = sizes["layers"], sizes["hidden"], sizes["vocab"]
    query, key, head = _attention(text, hidden)
    linears = _attention_matrices(family, hidden, query, key, layers) | _feed_forward(family, text, hidden, layers)
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


def _sizes(config: Mapping[str, Any]) -> dict[str, int]:
    text: Mapping[str, Any] = config.get("text_config") or config
    found = {
        "layers": text.get("num_hidden_layers") or text.get("n_layer"),
        "hidden": text.get("hidden_size") or text.get("n_embd"),
        "vocab": text.get("vocab_size"),
        "heads": text.get("num_attention_heads") or text.get("n_head") or 1,
    }
    lacking = [name for name, value in found.items() if not isinstance(value, int)]
    if lacking:
        raise InvalidRequestError(f"config.json names no {', '.join(lacking)}; right is the config.json of a decoder")
    query, key, _ = _attention(text, int(str(found["hidden"])))
    return {**{k: int(str(v)) for k, v in found.items()}, "wide": _wide(text), "attended": query + 2 * key}


def _attention(text: Mapping[str, Any], hidden: int) -> tuple[int, int, int]:
    """Widths of queries, of keys (or values), and of one head."""
    heads = int(text.get("num_attention_heads") or text.get("n_head") or 1)
    head = int(text.get("head_dim") or hidden // heads)
    return heads * head, int(text.get("num_key_value_heads") or heads) * head, head


def _wide(text: Mapping[str, Any]) -> int:
    """Inner width that one token passes."""
    plain = int(text.get("intermediate_size") or text.get("n_inner") or 4 * int(text.get("n_embd") or 0))
    active = int(text.get("num_experts_per_tok") or 0)
    return active * int(text.get("moe_intermediate_size") or plain) if active else plain


def _attention_matrices(
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


def _feed_forward(
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
