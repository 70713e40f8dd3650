"""How many bytes a training needs, estimated from the model card and the config; a first form, generous by design."""

from __future__ import annotations

from dataclasses import dataclass

from tuneloop.tools.params.finding import Finding
from tuneloop.tools.params.situation import Situation

RUNTIME = {"cpu": 700 << 20}
RUNTIME_ACCELERATOR = 1 << 30
# Bytes of optimizer state for one trained parameter; anything else keeps two float32 moments.
OPTIMIZER_BYTES = {"sgd": 0.0, "adafactor": 0.1, "adamw_8bit": 2.0, "adamw_bnb_8bit": 2.0, "paged_adamw_8bit": 2.0}
# Floats kept per token, layer and hidden unit: all intermediate results, or one when they are computed again.
KEPT, KEPT_CHECKPOINTING = 34.0, 2.0


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes by component."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    runtime: int

    @property
    def total(self) -> int:
        """All components together."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.runtime


def estimate_memory(situation: Situation) -> MemoryEstimate:
    """Bytes one device needs for this situation."""
    trained = trained_parameters(situation)
    half = bool(situation.set("bf16", "fp16", "pure_bf16"))
    bits = situation.get("quantization_bit") or (16 if half and situation.method != "full" else 32)
    return MemoryEstimate(
        weights=int(situation.model.parameters * bits / 8)
        + (trained * 4 if situation.method in ("lora", "oft") else 0),
        gradients=trained * 4,
        optimizer=int(trained * OPTIMIZER_BYTES.get(str(situation.get("optim")), 8.0)),
        activations=_activations(situation, 2 if half else 4),
        runtime=RUNTIME.get(situation.device, RUNTIME_ACCELERATOR),
    )


def trained_parameters(situation: Situation) -> int:
    """How many parameters the optimizer changes."""
    model = situation.model
    match situation.method:
        case "lora":
            target = str(situation.get("lora_target"))
            names = set(model.linears) if target == "all" else {n.strip() for n in target.split(",")}
            return int(situation.get("lora_rank")) * sum(model.linears[n][1] for n in names & set(model.linears))
        case "freeze":
            share = min(1.0, abs(situation.get("freeze_trainable_layers")) / max(1, model.layers))
            return int(model.parameters * share)
    return model.parameters


def _activations(situation: Situation, width: int) -> int:
    tokens = situation.get("per_device_train_batch_size") * situation.get("cutoff_len")
    kept = KEPT if situation.set("disable_gradient_checkpointing") else KEPT_CHECKPOINTING
    inside = situation.model.layers * situation.model.hidden * kept + situation.model.hidden * KEPT
    return int(tokens * (inside * width + situation.model.vocab * 3 * 4))


def memory_finding(situation: Situation, available: int) -> Finding | None:
    """A finding when the estimate is near or above `available` bytes."""
    need = estimate_memory(situation)
    if need.total <= 0.9 * available:
        return None
    largest = max(("optimizer", "activations", "weights"), key=lambda name: getattr(need, name))
    cure = (
        "lower per_device_train_batch_size or cutoff_len" if largest == "activations" else "write finetuning_type: lora"
    )
    key = "per_device_train_batch_size" if largest == "activations" else "finetuning_type"
    text = f"needs about {gib(need.total)} ({largest} {gib(getattr(need, largest))}) of {gib(available)}; {cure}"
    level = "error" if need.total > 1.3 * available else "warning"
    return Finding(level, situation.config.lines.get(key, 0), key, text)  # type: ignore[arg-type]


def gib(count: float) -> str:
    """Bytes in words."""
    return f"{count / (1 << 30):.1f} GiB"
