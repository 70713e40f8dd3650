"""Bytes that one training step keeps on a CPU, in float32: what autograd saves, and what the allocator does not give back.

Counted from LLaMA-Factory's engine (transformers' decoders, PyTorch's fused attention), and equal to the resident memory
of real steps within a few percent where every block is given back at once. With glibc's usual allocator more stays:
blocks that were freed between smaller ones that live on. An adapter makes two short-lived copies of what each of its
matrices puts out, and saves a small block between them: those copies stay.
"""

from __future__ import annotations

from tuneloop.tools.memory.shape import Linear, Shape

FLOAT = 4
# A forked job's: the engine's libraries and tables, shared with the warm engine, counted whole; a cold one has 70 MB more.
RUNTIME = 450 << 20
LOGITS = 3 * FLOAT  # log-softmax, the gradient of the loss, the gradient of the logits


def kept_layers(shape: Shape, method: str, trained_layers: int) -> int:
    """Layers whose results are saved for the backward pass: below the lowest that is trained nothing is."""
    return min(shape.layers, trained_layers) if method == "freeze" and trained_layers > 0 else shape.layers


def step_bytes(
    shape: Shape,
    batch: int,
    tokens: int,
    *,
    layers: int,
    checkpointing: bool,
    fused: bool,
    adapters: list[Linear],
    rank: int,
) -> int:
    """What a step saves of `batch` rows of `tokens` tokens in so many layers; `adapters`: the matrices that have one."""
    rows = batch * tokens
    query = shape.linears["o_proj"].inputs if "o_proj" in shape.linears else shape.hidden
    # Norms keep their input and result, trained ones also what they scale; keys and values are repeated for each head.
    norms = 4 * shape.hidden if adapters else 6 * shape.hidden
    floats = norms + 4 * query + 4 * shape.wide
    floats += sum(rank + 2 * linear.outputs for linear in adapters)
    # Padding makes a mask of its own in every layer; unfused attention keeps its weights twice.
    square = batch * tokens * tokens * (1 if fused else 1 + 3 * shape.heads)
    layer = (rows * floats + square) * FLOAT
    ends = 3 * rows * shape.hidden * FLOAT
    if checkpointing:
        return layer + layers * rows * shape.hidden * FLOAT + ends
    return layers * layer + ends
