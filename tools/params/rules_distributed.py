"""Rules about what DeepSpeed cannot go with: optimizers, adapters, quantization."""

from __future__ import annotations

from collections.abc import Iterator

from tuneloop.tools.params.finding import Complaint
from tuneloop.tools.params.rule import Rule, alike, broken
from tuneloop.tools.params.situation import Situation

DEQUANTIZED = ("mxfp4", "fp8")  # what the engine makes 16 bits of while it loads the weights

RULES: tuple[Rule, ...] = (
    Rule(
        "use_galore",
        lambda s: s.set("deepspeed") and s.set("use_galore"),
        "cannot go with deepspeed: leave one of them out",
    ),
    Rule(
        "use_apollo",
        lambda s: s.set("deepspeed") and s.set("use_apollo"),
        "cannot go with deepspeed: leave one of them out",
    ),
    *alike(
        ("use_unsloth", "use_kt"),
        lambda s, _: s.set("adapter_name_or_path") and len(s.names("adapter_name_or_path")) > 1,
        "takes one adapter, and adapter_name_or_path names several; merge them first",
    ),
    Rule(
        "adapter_name_or_path",
        lambda s: s.zero == 3 and s.set("adapter_name_or_path") and len(s.names("adapter_name_or_path")) > 1,
        "names several adapters, and DeepSpeed ZeRO-3 takes one; merge them first",
    ),
    Rule(
        "badam_mode",
        lambda s: s.set("use_badam") and s.set("deepspeed") and s.get("badam_mode") == "ratio",
        "ratio cannot go with deepspeed; write layer, or leave deepspeed out",
    ),
    Rule(
        "use_badam",
        lambda s: s.set("use_badam") and s.get("badam_mode") == "layer" and s.zero in (1, 2),
        "goes with DeepSpeed ZeRO-3 only; name such a config in deepspeed, or leave deepspeed out",
    ),
    Rule(
        "deepspeed",
        lambda s: s.zero == 3 and s.model.quantized not in ("", *DEQUANTIZED),
        "ZeRO-3 cannot go with a model whose weights are quantized; take a config with ZeRO-2",
    ),
    *alike(
        ("pissa_init", "pure_bf16", "use_unsloth", "use_kt", "predict_with_generate"),
        lambda s, _: s.zero == 3,
        "cannot go with DeepSpeed ZeRO-3; leave one of them out",
    ),
)


def distributed_rules(s: Situation) -> Iterator[Complaint]:
    """What cannot be split over devices."""
    yield from broken(RULES, s)
    yield from _bits(s)


def _bits(s: Situation) -> Iterator[Complaint]:
    """ZeRO-3 splits 4 bits of bitsandbytes and no other weights that are quantized while loading."""
    bits, method = s.get("quantization_bit"), str(s.get("quantization_method"))
    if s.zero == 3 and bits is not None and (method, bits) != ("bnb", 4):
        key, value = ("quantization_bit", bits) if method == "bnb" else ("quantization_method", method)
        yield (
            "error",
            key,
            f"{value} cannot go with DeepSpeed ZeRO-3: write 4 bits of bnb, or take a config with ZeRO-2",
        )
