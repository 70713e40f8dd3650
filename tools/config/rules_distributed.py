"""Rules about keys whose value is a mapping: JSON that can be read, names and pairs inside that the engine takes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from tuneloop.tools.config.config_text import json_value
from tuneloop.tools.config.context import ConfigContext
from tuneloop.tools.config.finding import KeyProblem
from tuneloop.tools.config.rule import ConfigRule, find_broken_rules, same_rule

# Rules about what DeepSpeed cannot go with: optimizers, adapters, quantization.

DEQUANTIZED = ("mxfp4", "fp8")  # what the engine makes 16 bits of while it loads the weights

RULES: tuple[ConfigRule, ...] = (
    ConfigRule(
        "use_galore",
        lambda s: s.set("deepspeed") and s.set("use_galore"),
        "cannot go with deepspeed: leave one of them out",
    ),
    ConfigRule(
        "use_apollo",
        lambda s: s.set("deepspeed") and s.set("use_apollo"),
        "cannot go with deepspeed: leave one of them out",
    ),
    *same_rule(
        ("use_unsloth", "use_kt"),
        lambda s, _: s.set("adapter_name_or_path") and len(s.names("adapter_name_or_path")) > 1,
        "takes one adapter, and adapter_name_or_path names several; merge them first",
    ),
    ConfigRule(
        "adapter_name_or_path",
        lambda s: s.zero == 3 and s.set("adapter_name_or_path") and len(s.names("adapter_name_or_path")) > 1,
        "names several adapters, and DeepSpeed ZeRO-3 takes one; merge them first",
    ),
    ConfigRule(
        "badam_mode",
        lambda s: s.set("use_badam") and s.set("deepspeed") and s.get("badam_mode") == "ratio",
        "ratio cannot go with deepspeed; write layer, or leave deepspeed out",
    ),
    ConfigRule(
        "use_badam",
        lambda s: s.set("use_badam") and s.get("badam_mode") == "layer" and s.zero in (1, 2),
        "goes with DeepSpeed ZeRO-3 only; name such a config in deepspeed, or leave deepspeed out",
    ),
    ConfigRule(
        "deepspeed",
        lambda s: s.zero == 3 and s.model.quantized not in ("", *DEQUANTIZED),
        "ZeRO-3 cannot go with a model whose weights are quantized; take a config with ZeRO-2",
    ),
    *same_rule(
        ("pissa_init", "pure_bf16", "use_unsloth", "use_kt", "predict_with_generate"),
        lambda s, _: s.zero == 3,
        "cannot go with DeepSpeed ZeRO-3; leave one of them out",
    ),
)


def distributed_rules(s: ConfigContext) -> Iterator[KeyProblem]:
    """What cannot be split over devices."""
    yield from find_broken_rules(RULES, s)
    yield from _bits(s)


def _bits(s: ConfigContext) -> Iterator[KeyProblem]:
    """ZeRO-3 splits 4 bits of bitsandbytes and no other weights that are quantized while loading."""
    bits, method = s.get("quantization_bit"), str(s.get("quantization_method"))
    if s.zero == 3 and bits is not None and (method, bits) != ("bnb", 4):
        key, value = ("quantization_bit", bits) if method == "bnb" else ("quantization_method", method)
        yield (
            "error",
            key,
            f"{value} cannot go with DeepSpeed ZeRO-3: write 4 bits of bnb, or take a config with ZeRO-2",
        )


# Mappings whose names are fixed.
NAMED: dict[str, tuple[str, ...]] = {
    "accelerator_config": (
        *("split_batches", "dispatch_batches", "even_batches", "use_seedable_sampler", "non_blocking"),
        *("gradient_accumulation_kwargs", "use_configured_state"),
    ),
    "gradient_checkpointing_kwargs": (
        *("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"),
    ),
}


def mapping_rules(s: ConfigContext) -> Iterator[KeyProblem]:
    """What is wrong inside the config's mappings."""
    yield from _unread(s)
    yield from _inner_names(s)
    yield from _fsdp(s)


def _unread(s: ConfigContext) -> Iterator[KeyProblem]:
    """The engine reads a text that begins with a brace as JSON, and fails where it is none."""
    for key in s.set(*s.config.values):
        value, parameter = s.config.values[key], s.catalog.parameters.get(key)
        if parameter is None or "dict" not in parameter.kinds or not str(value).startswith("{"):
            continue
        try:
            json.loads(value if isinstance(value, str) else "{}")
        except ValueError as e:
            yield "error", key, f"is no JSON ({e}); write it as a mapping, without quotes"


def _inner_names(s: ConfigContext) -> Iterator[KeyProblem]:
    for key, known in NAMED.items():
        given = json_value(s.get(key), s.here)
        wrong = [str(name) for name in given if name not in known] if isinstance(given, Mapping) else []
        if wrong:
            yield "error", key, f"{wrong[0]} is nothing that it takes; right is {', '.join(sorted(known))}"


def _fsdp(s: ConfigContext) -> Iterator[KeyProblem]:
    given = json_value(s.get("fsdp_config"), s.here)
    if not s.set("fsdp") or not isinstance(given, Mapping):
        return
    inside = {str(name).removeprefix("fsdp_"): value for name, value in given.items()}
    if inside.get("min_num_params") and inside.get("transformer_layer_cls_to_wrap") is not None:
        yield (
            "error",
            "fsdp_config",
            "min_num_params cannot go with transformer_layer_cls_to_wrap there; keep one of them",
        )
    if _said(inside, "sync_module_states") == "false" and _said(inside, "cpu_ram_efficient_loading") == "true":
        yield "error", "fsdp_config", "cpu_ram_efficient_loading needs sync_module_states: true there"


def _said(inside: Mapping[str, object], name: str) -> str:
    return str(inside.get(name, "")).lower()
