"""Short trainings of decoders with random weights, by torch alone or with transformers' classes; no file is read."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

RANK, ALPHA = 8, 16
FULL_RATE, LORA_RATE = 1e-4, 1e-3
WARM = 2  # steps before the clock starts
MATRICES = {"self_attn": ("q_proj", "k_proj", "v_proj", "o_proj"), "mlp": ("gate_proj", "up_proj", "down_proj")}


def config(kind: str, layers: int, hidden: int, wide: int, heads: int, keys: int, vocab: int) -> dict[str, Any]:
    """A config.json whose head is its embedding."""
    return {
        "model_type": kind, "num_hidden_layers": layers, "hidden_size": hidden, "intermediate_size": wide,
        "num_attention_heads": heads, "num_key_value_heads": keys, "vocab_size": vocab, "tie_word_embeddings": True,
    }  # fmt: skip


SMOLLM2 = config("llama", 30, 576, 1536, 9, 3, 49152)
QWEN2 = config("qwen2", 28, 1536, 8960, 12, 2, 151936)


def tensors(sizes: dict[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Name → type and shape of every weight of a Llama or Qwen2, as headers of safetensors have them."""
    hidden, wide = sizes["hidden_size"], sizes["intermediate_size"]
    key = hidden // sizes["num_attention_heads"] * sizes["num_key_value_heads"]
    outputs = {"k_proj": key, "v_proj": key, "gate_proj": wide, "up_proj": wide}
    found: dict[str, tuple[int, ...]] = {"embed_tokens.weight": (sizes["vocab_size"], hidden), "norm.weight": (hidden,)}
    for layer in range(sizes["num_hidden_layers"]):
        for part, names in MATRICES.items():
            for name in names:
                rows = outputs.get(name, hidden)
                found[f"layers.{layer}.{part}.{name}.weight"] = (rows, wide if name == "down_proj" else hidden)
                if sizes["model_type"] == "qwen2" and name in ("q_proj", "k_proj", "v_proj"):
                    found[f"layers.{layer}.{part}.{name}.bias"] = (rows,)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            found[f"layers.{layer}.{norm}.weight"] = (hidden,)
    return {f"model.{name}": ("F32", shape) for name, shape in found.items()}


def step_operations(sizes: dict[str, Any], tokens: int, *, full: bool) -> float:
    """Operations that a step of so many tokens needs at least: forward, backward, weights' gradients where all are trained.

    What checkpointing computes twice, and attention itself, is not counted.
    """
    inside = sum(rows * columns for _, (rows, *rest) in tensors(sizes).values() for columns in rest)
    return (6.0 if full else 4.0) * inside * tokens


@dataclass(frozen=True)
class Training:
    """What is trained and how: `batch` rows of `tokens`; `full`: all weights, else a LoRA of rank 8 on every matrix."""

    sizes: dict[str, Any]
    full: bool
    batch: int
    tokens: int
    checkpointing: bool = True


def make_model(torch: Any, sizes: dict[str, Any], *, library: bool = True) -> Any:
    """The model with random weights: of transformers where `library` is true and it imports, else a plain one."""
    if library:
        try:
            transformers = importlib.import_module("transformers")
        except ImportError:
            return plain_model(torch, sizes)
        made = transformers.AutoConfig.for_model(**sizes, use_cache=False)
        return transformers.AutoModelForCausalLM.from_config(made)
    return plain_model(torch, sizes)


def plain_model(torch: Any, sizes: dict[str, Any]) -> Any:
    """A decoder of the same weights and names, in few lines."""
    nn, functional = torch.nn, torch.nn.functional
    hidden, heads, keys = sizes["hidden_size"], sizes["num_attention_heads"], sizes["num_key_value_heads"]
    shapes, width = tensors(sizes), hidden // heads
    checkpoint = importlib.import_module("torch.utils.checkpoint").checkpoint

    def turned(x: Any) -> Any:
        places = torch.arange(x.shape[2], device=x.device)[:, None] / 10000 ** (
            torch.arange(0, width, 2, device=x.device) / width
        )
        cos, sin = (torch.cat((f(places), f(places)), -1).to(x.dtype) for f in (torch.cos, torch.sin))
        one, other = x.chunk(2, -1)
        return x * cos + torch.cat((-other, one), -1) * sin

    def linear(name: str) -> Any:
        rows, columns = shapes[f"model.layers.0.{name}.weight"][1]
        return nn.Linear(columns, rows, bias=f"model.layers.0.{name}.bias" in shapes)

    class Norm(nn.Module):  # type: ignore[misc, name-defined]  # torch is not there where this is checked
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(hidden))

        def forward(self, x: Any) -> Any:
            wide = x.float()
            return self.weight * (wide * (wide.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()).to(x.dtype)

    class Layer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.input_layernorm, self.post_attention_layernorm = Norm(), Norm()
            for part, names in MATRICES.items():
                setattr(self, part, nn.ModuleDict({name: linear(f"{part}.{name}") for name in names}))

        def forward(self, x: Any) -> Any:
            a, m, seen = self.self_attn, self.mlp, self.input_layernorm(x)
            q, k, v = (
                a[name](seen).unflatten(-1, (count, width)).transpose(1, 2)
                for name, count in (("q_proj", heads), ("k_proj", keys), ("v_proj", keys))
            )
            q, k = turned(q).to(v.dtype), turned(k).to(v.dtype)
            k, v = (one.repeat_interleave(heads // keys, 1) for one in (k, v))
            told = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            x = x + a["o_proj"](told)
            seen = self.post_attention_layernorm(x)
            return x + m["down_proj"](functional.silu(m["gate_proj"](seen)) * m["up_proj"](seen))

    class Decoder(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed_tokens = nn.Embedding(sizes["vocab_size"], hidden)
            nn.init.normal_(self.embed_tokens.weight, std=0.02)
            self.layers = nn.ModuleList(Layer() for _ in range(sizes["num_hidden_layers"]))
            self.norm = Norm()

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model, self.checkpointing = Decoder(), False

        def gradient_checkpointing_enable(self, **_: Any) -> None:
            self.checkpointing = True

        def enable_input_require_grads(self) -> None:
            self.model.embed_tokens.register_forward_hook(lambda _, __, made: made.requires_grad_(True))

        def forward(self, input_ids: Any) -> Any:
            x = self.model.embed_tokens(input_ids)
            for layer in self.model.layers:
                x = checkpoint(layer, x, use_reentrant=False) if self.checkpointing else layer(x)
            return functional.linear(self.model.norm(x), self.model.embed_tokens.weight)

    return Model()


def add_adapters(torch: Any, model: Any) -> None:
    """Freeze everything and put a LoRA in float32 beside each matrix inside the layers."""
    model.requires_grad_(False)
    for layer in model.model.layers:
        for part, names in MATRICES.items():
            for name in names:
                adapt(torch, dict(getattr(layer, part).named_children())[name])


def adapt(torch: Any, linear: Any) -> None:
    """One LoRA, added to what the matrix says."""
    made = {"device": linear.weight.device, "dtype": torch.float32}
    linear.lora_a = torch.nn.Parameter(0.01 * torch.randn(RANK, linear.in_features, **made))
    linear.lora_b = torch.nn.Parameter(torch.zeros(linear.out_features, RANK, **made))

    def beside(module: Any, given: tuple[Any, ...], said: Any) -> Any:
        f = torch.nn.functional.linear
        made = f(f(given[0].to(module.lora_a.dtype), module.lora_a), module.lora_b)
        return (said + ALPHA / RANK * made).to(said.dtype)

    linear.register_forward_hook(beside)


def prepared(torch: Any, asked: Training, device: str, *, library: bool = True) -> Any:
    """The model on its device: frozen weights in bfloat16, trained ones in float32, as LLaMA-Factory has them."""
    with torch.device(device):
        model = make_model(torch, asked.sizes, library=library)
    if not asked.full:
        model.to(torch.bfloat16)
        add_adapters(torch, model)
        model.enable_input_require_grads()
    else:
        model.to(torch.float32)
    if asked.checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model.train()


def losses(torch: Any, model: Any, asked: Training, device: str) -> Iterator[float]:
    """Train without an end on the same random rows; the loss of each step, when the device has done it."""
    tuned = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        tuned, lr=FULL_RATE if asked.full else LORA_RATE, fused=True
    )  # as the engine's default
    rows = torch.randint(asked.sizes["vocab_size"], (asked.batch, asked.tokens), device=device)
    following = torch.nn.functional.pad(rows[:, 1:], (0, 1), value=-100).flatten()  # logits stay where they are
    while True:
        with torch.autocast(device, dtype=torch.bfloat16):
            said = model(input_ids=rows)
            logits = (said if torch.is_tensor(said) else said.logits).float()
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), following)
        del said, logits
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield loss.item()


def measure(torch: Any, asked: Training, device: str, seconds: float, *, library: bool = True) -> dict[str, Any]:
    """First and last loss, steps, seconds of a step, tokens a second. Raises what torch raises."""
    steps = losses(torch, prepared(torch, asked, device, library=library), asked, device)
    first, *_ = [next(steps) for _ in range(WARM)]
    began, count, last = time.monotonic(), 0, first
    while count < 2 or (count < 20 and time.monotonic() - began < seconds):
        last, count = next(steps), count + 1
    each = (time.monotonic() - began) / count
    return {
        "steps": WARM + count, "first_loss": round(first, 4), "last_loss": round(last, 4),
        "seconds_per_step": each, "tokens_per_second": asked.batch * asked.tokens / each,
    }  # fmt: skip


def largest_batch(attempt: Callable[[int], None], batch: int, out_of_memory: type[BaseException]) -> tuple[int, str]:
    """The first of `batch`, its half, … with which `attempt` has enough memory, and what was said the first time; 0: none."""
    said = ""
    while batch:
        try:
            attempt(batch)
        except out_of_memory as e:
            said = said or f"{type(e).__name__}: {e}"
            batch //= 2
        else:
            break
    return batch, said
