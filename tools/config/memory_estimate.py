"""Bytes one device needs for a training, component by component.

The rules are those of LLaMA-Factory: what is trained is kept in float32 unless `pure_bf16`, frozen weights in the
computing precision; quantized are the matrices inside the layers, not embeddings and head. Activations are counted
from what PyTorch's autograd keeps of one decoder layer. On a GPU the four moments of a step in which memory is highest
are counted one by one; they are within 4 % of what was measured on an H100 (docs/gpu.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Literal

from tuneloop.tools.config.model_shape import LinearGroup, ModelShape

# Bytes that one training step keeps on a CPU, in float32: what autograd saves, and what the allocator does not give back.

FLOAT = 4
# A forked job's: the engine's libraries and tables, shared with the warm engine, counted whole; a cold one has 70 MB more.
RUNTIME = 450 << 20
LOGITS = 3 * FLOAT  # log-softmax, the gradient of the loss, the gradient of the logits


def backward_layers(shape: ModelShape, method: str, trained_layers: int) -> int:
    """Layers whose results are saved for the backward pass: below the lowest that is trained nothing is."""
    return min(shape.layers, trained_layers) if method == "freeze" and trained_layers > 0 else shape.layers


def cpu_step_bytes(
    shape: ModelShape,
    batch: int,
    tokens: int,
    *,
    layers: int,
    checkpointing: bool,
    fused: bool,
    adapters: list[LinearGroup],
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


Method = Literal["full", "freeze", "lora", "oft"]
Precision = Literal["fp32", "fp16", "bf16", "pure_bf16"]

# Bytes of optimizer state for one trained parameter, where it is not two float32 moments.
STATES = {"sgd": 0.0, "adafactor": 0.05, "lion": 4.0, "8bit": 2.0, "4bit": 1.0, "adam_mini": 4.1, "muon": 4.0}
# Scales of quantized blocks, in bits for each weight: 32 bits for 64 weights, themselves quantized when nested; 2-bit
# methods keep code books that hardly count.
SCALES, NESTED_SCALES, CODE_BOOKS = 0.5, 0.127, 0.1
# What a process holds of a GPU before the model: CUDA context, kernels' workspace.
GPU_RUNTIME = 800 << 20
# Bytes of each logit at the end of the forward pass, beside the logit itself where it is a half: float32 copy, log-softmax.
FORWARD_LOGITS = 8
# At the start of the backward pass: log-softmax, the gradient of the loss, the gradient of the logits.
BACKWARD_LOGITS = 12
# Elements of a ZeRO bucket as the engine's example configurations set it, two of them in half precision.
BUCKET = 5 * 10**8


@dataclass(frozen=True)
class Recipe:
    """The part of a config that costs memory. `tokens`: of the longest row after cutting; `targets` () means all.

    `half_stored`: the base model's files hold two bytes a weight.
    """

    method: Method = "lora"
    precision: Precision = "bf16"
    tokens: int = 2048
    batch: int = 1
    optimizer: str = "adamw_torch_fused"
    low_rank: Literal["", "galore", "apollo", "badam"] = ""
    rank: int = 8
    targets: tuple[str, ...] = ()
    trained_layers: int = 2
    bits: int | None = None
    nested: bool = True
    checkpointing: bool = True
    fused_attention: bool = True
    half_stored: bool = False
    accumulates: bool = False

    @property
    def adapted(self) -> bool:
        """Whether adapters are trained, beside frozen weights."""
        return self.method in ("lora", "oft")

    @property
    def mixed(self) -> bool:
        """Whether float32 weights compute in two bytes: autocast makes a half copy of each, and of each input."""
        return not self.adapted and self.precision in ("bf16", "fp16")

    @property
    def half(self) -> bool:
        """Whether results are computed in two bytes."""
        return self.precision != "fp32"


@dataclass(frozen=True)
class Hardware:
    """Where it runs. `zero`: DeepSpeed's stage, or 3 for FSDP; `offload`: optimizer states live in the CPU's memory."""

    device: Literal["cpu", "cuda"] = "cuda"
    gpus: int = 1
    zero: Literal[0, 1, 2, 3] = 0
    offload: bool = False


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of one device, by component."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    logits: int
    buffers: int
    runtime: int

    @property
    def total(self) -> int:
        """All components together."""
        return sum(self.components.values())

    @property
    def components(self) -> dict[str, int]:
        """Name → bytes, in the order in which they are explained."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def estimate_memory(shape: ModelShape, recipe: Recipe, cluster: Hardware | None = None) -> MemoryEstimate:
    """The peak of one optimizer step on one device: what is held in the moment that needs most."""
    where = cluster or Hardware()
    trained = trained_parameters(shape, recipe)
    if where.device == "cpu":
        return _cpu_estimate(shape, recipe, trained)
    return max(_moments(shape, recipe, where, trained), key=lambda moment: moment.total)


def _moments(shape: ModelShape, recipe: Recipe, where: Hardware, trained: int) -> Iterator[MemoryEstimate]:
    """End of the forward pass, start and end of the backward pass, the optimizer's step."""
    share = [1 / where.gpus if where.zero >= stage else 1.0 for stage in (0, 1, 2, 3)]
    rows, width = recipe.batch * recipe.tokens, 2 if recipe.half else 4
    gradients = int(_gradients(shape, recipe, trained) * share[2])
    # Gradients come into being in the backward pass, unless they are summed up over batches or lie in shared buckets.
    held = gradients if recipe.accumulates or where.gpus > 1 else 0
    buffers = _buffers(shape, recipe, where, trained)
    copies, head = (int(2 * trained * share[3]), 2 * (shape.head or shape.embedding)) if recipe.mixed else (0, 0)
    inside = _layer_bytes(shape, recipe, width)
    kept = rows * _kept_bytes(shape, recipe, width, inside)
    logits = rows * shape.vocab
    # A tied embedding's gradient is made whole beside the head's, to which it is added.
    tied = (
        0 if shape.head or recipe.method != "full" else shape.embedding * (4 if recipe.precision != "pure_bf16" else 2)
    )
    steps = 0 if where.offload else int(_temporaries(shape, recipe, trained) * share[1])
    same = MemoryEstimate(
        weights=int(_weights(shape, recipe, trained) * share[3]),
        gradients=gradients,
        optimizer=0 if where.offload else int(_states(shape, recipe, trained) * share[1]),
        activations=0,
        logits=0,
        buffers=buffers,
        runtime=GPU_RUNTIME,
    )
    forward = logits * (FORWARD_LOGITS + (width if recipe.half else 0))
    yield replace(same, gradients=held, activations=kept, logits=forward, buffers=buffers + copies)
    again = head if recipe.checkpointing else copies
    yield replace(same, gradients=held, activations=kept, logits=logits * BACKWARD_LOGITS, buffers=buffers + again)
    yield replace(same, activations=rows * inside, buffers=buffers + tied)
    yield replace(same, buffers=buffers + steps)


def _cpu_estimate(shape: ModelShape, recipe: Recipe, trained: int) -> MemoryEstimate:
    """The same for one process on a CPU, where all is float32 and the allocator keeps gradients' places."""
    adapters = _adapted_linears(shape, recipe)
    saved = cpu_step_bytes(
        shape,
        recipe.batch,
        recipe.tokens,
        layers=backward_layers(shape, recipe.method, recipe.trained_layers),
        checkpointing=recipe.checkpointing,
        fused=recipe.fused_attention,
        adapters=adapters,
        rank=recipe.rank,
    )
    if recipe.adapted and recipe.half_stored:
        saved = _saved_beside_half(saved, shape, recipe, adapters)
    gradients = int(_gradients(shape, recipe, trained))
    # Layer by layer gradients come as activations go; measured, half of them find a place there.
    shared = 0 if recipe.checkpointing else min(saved, gradients) // 2
    return MemoryEstimate(
        weights=int(_cpu_weights(shape, recipe, trained)),
        gradients=gradients,
        optimizer=int(_states(shape, recipe, trained)),
        activations=saved - shared,
        logits=recipe.batch * recipe.tokens * shape.vocab * LOGITS,
        # The embedding's gradient is made whole before it is added.
        buffers=shape.embedding * FLOAT if recipe.method == "full" else 0,
        runtime=RUNTIME,
    )


def _saved_beside_half(saved: int, shape: ModelShape, recipe: Recipe, adapters: list[LinearGroup]) -> int:
    """The same where the matrices that adapters stand beside are in half precision; measured.

    With checkpointing LoRA's float32 copies of each matrix's inputs are not given back.
    """
    if not recipe.checkpointing:
        return saved // 2
    copies = sum(linear.inputs for linear in adapters) * FLOAT if recipe.method == "lora" else 0
    return saved + recipe.batch * recipe.tokens * shape.layers * copies


def trained_parameters(shape: ModelShape, recipe: Recipe) -> int:
    """How many parameters the optimizer changes."""
    match recipe.method:
        case "lora":
            return sum(linear.adapter(recipe.rank) for linear in _target_linears(shape, recipe))
        case "oft":
            # One block of `rank` × `rank` for each `rank` inputs, skew-symmetric.
            return sum(
                linear.count * linear.inputs * (recipe.rank - 1) // 2 for linear in _target_linears(shape, recipe)
            )
        case "freeze":
            share = min(1.0, abs(recipe.trained_layers) / max(1, shape.layers))
            return int((shape.inside + shape.rest) * share)
    return shape.parameters


def _target_linears(shape: ModelShape, recipe: Recipe) -> list[LinearGroup]:
    return [linear for name, linear in shape.linears.items() if not recipe.targets or name in recipe.targets]


def _adapted_linears(shape: ModelShape, recipe: Recipe) -> list[LinearGroup]:
    """Matrices with an adapter that every token passes; not those of experts."""
    linears = _target_linears(shape, recipe) if recipe.adapted else []
    return [linear for linear in linears if linear.count <= max(1, shape.layers)]


def _weights(shape: ModelShape, recipe: Recipe, trained: int) -> float:
    if recipe.precision == "pure_bf16":
        return shape.parameters * 2.0 + (trained * 2.0 if recipe.adapted else 0.0)
    if recipe.method == "full":
        return shape.parameters * 4.0
    width = 2.0 if recipe.half else 4.0
    if recipe.method == "freeze":
        return (shape.parameters - trained) * width + trained * 4.0
    frozen = shape.parameters * width
    if recipe.bits is not None:
        frozen = (
            shape.inside * (recipe.bits + _quantization_scales(recipe)) / 8 + (shape.parameters - shape.inside) * width
        )
    return frozen + trained * 4.0


def _cpu_weights(shape: ModelShape, recipe: Recipe, trained: int) -> float:
    """LLaMA-Factory keeps what adapters stand beside as the files have it; every other method has all in float32."""
    saved = 2.0 * shape.parameters if recipe.adapted and recipe.half_stored else 0.0
    return _weights(shape, recipe, trained) - saved


def _quantization_scales(recipe: Recipe) -> float:
    if recipe.bits == 2:
        return CODE_BOOKS
    return NESTED_SCALES if recipe.bits == 4 and recipe.nested else SCALES


def _gradients(shape: ModelShape, recipe: Recipe, trained: int) -> float:
    if recipe.low_rank in ("galore", "apollo"):
        # Taken up layer by layer: no more than the largest matrix is held.
        return max((linear.outputs * linear.inputs for linear in shape.linears.values()), default=0) * 4.0
    if recipe.low_rank == "badam":
        trained //= max(1, shape.layers)
    return trained * (2.0 if recipe.precision == "pure_bf16" else 4.0)


def _states(shape: ModelShape, recipe: Recipe, trained: int) -> float:
    if recipe.low_rank in ("galore", "apollo"):
        return sum(_low_rank_states(linear, recipe) for linear in shape.linears.values())
    if recipe.low_rank == "badam":
        trained //= max(1, shape.layers)
    known = next((size for name, size in STATES.items() if name in recipe.optimizer), None)
    if known is not None:
        return trained * known
    return trained * (4.0 if recipe.precision == "pure_bf16" else 8.0)


def _temporaries(shape: ModelShape, recipe: Recipe, trained: int) -> float:
    """What an optimizer's step makes beside its states: one number for each parameter, unless the step is fused.

    GaLore and APOLLO replace the optimizer and go matrix by matrix; BAdam keeps it, for one layer at a time.
    """
    if recipe.optimizer != "adamw_torch" or recipe.low_rank in ("galore", "apollo"):
        return 0.0
    if recipe.low_rank == "badam":
        return trained // max(1, shape.layers) * 4.0  # float32 copies, whatever the model has
    return trained * (2.0 if recipe.precision == "pure_bf16" else 4.0)


def _low_rank_states(linear: LinearGroup, recipe: Recipe) -> float:
    """Two moments of rank × the long side; GaLore keeps its projection, APOLLO's is drawn anew from a seed."""
    long, short = max(linear.outputs, linear.inputs), min(linear.outputs, linear.inputs)
    rank = min(recipe.rank, short)
    return linear.count * 4.0 * (2 * rank * long + (rank * short if recipe.low_rank == "galore" else 0))


def _layer_bytes(shape: ModelShape, recipe: Recipe, width: int) -> int:
    """Bytes that autograd keeps of one token in one layer; `width`: bytes of a computed number."""
    hidden = shape.hidden
    query = shape.linears["o_proj"].inputs if "o_proj" in shape.linears else hidden
    found = (
        2 * 4 * hidden + (shape.attended + query) * width + 3 * shape.wide * width
    )  # norms in float32, attention, gate
    if not recipe.fused_attention:
        found += shape.heads * recipe.tokens * (2 * width + 4)
    if recipe.adapted:  # each adapter has its own copy of its input
        return found + width * sum(linear.inputs for linear in _adapted_linears(shape, recipe))
    # A trained matrix keeps its input: one for query, key and value, one for gate and up; autocast makes each its own.
    inputs = (5 if recipe.mixed else 2) * hidden + shape.wide
    return found + inputs * width + 2 * hidden * (2 if recipe.precision == "pure_bf16" else 4)


def _kept_bytes(shape: ModelShape, recipe: Recipe, width: int, inside: int) -> int:
    """Bytes for each token at the end of the forward pass: all that layers keep, or with checkpointing their inputs."""
    layers = backward_layers(shape, recipe.method, recipe.trained_layers)
    if not recipe.checkpointing:
        return layers * inside + 2 * shape.hidden * width
    # What flows between layers is as wide as the embedding: float32 where that is trained.
    between = 4 if recipe.method == "full" and recipe.precision != "pure_bf16" else width
    return (layers + 2) * shape.hidden * between


def _buffers(shape: ModelShape, recipe: Recipe, where: Hardware, trained: int) -> int:
    """Gathered weights, communication buckets, one matrix unpacked from its quantized form."""
    layer = 2 * shape.inside // max(1, shape.layers)
    unpacked = max((linear.outputs * linear.inputs for linear in shape.linears.values()), default=0) * 2
    needed = unpacked if recipe.bits is not None else 0
    if where.gpus > 1:
        needed += trained * 4 if where.zero == 0 else 2 * 2 * min(BUCKET, trained)
    if where.gpus > 1 and where.zero == 3:
        needed += 2 * layer + (shape.embedding + shape.head) * 2
    return needed
