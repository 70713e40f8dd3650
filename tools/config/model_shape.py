"""The matrices of a decoder, from the headers of its weights."""

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
    return ModelShape(**sizes_of_config(config), embedding=embedding, head=head, rest=rest, linears=linears)


def sizes_of_config(config: Mapping[str, Any]) -> dict[str, int]:
    """The sizes that config.json names. Raises InvalidRequestError when one is missing."""
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
    query, key, _ = attention_widths(text, int(str(found["hidden"])))
    return {**{k: int(str(v)) for k, v in found.items()}, "wide": _wide(text), "attended": query + 2 * key}


def attention_widths(text: Mapping[str, Any], hidden: int) -> tuple[int, int, int]:
    """Widths of queries, of keys (or values), and of one head."""
    heads = int(text.get("num_attention_heads") or text.get("n_head") or 1)
    head = int(text.get("head_dim") or hidden // heads)
    return heads * head, int(text.get("num_key_value_heads") or heads) * head, head


def _wide(text: Mapping[str, Any]) -> int:
    """Inner width that one token passes."""
    plain = int(text.get("intermediate_size") or text.get("n_inner") or 4 * int(text.get("n_embd") or 0))
    active = int(text.get("num_experts_per_tok") or 0)
    return active * int(text.get("moe_intermediate_size") or plain) if active else plain
