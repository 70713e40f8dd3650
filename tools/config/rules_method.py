"""Rules about the fine-tuning method, quantization, optimizers and what the model is loaded with."""

from __future__ import annotations

from collections.abc import Iterator

from tuneloop.tools.config.context import ConfigContext
from tuneloop.tools.config.finding import KeyProblem
from tuneloop.tools.config.rule import ConfigRule, find_broken_rules, same_rule, warning

LORA_ONLY = ("use_rslora", "use_dora", "pissa_init", "loraplus_lr_ratio")
METHOD_PREFIXES = {
    "lora": ("lora_", "loraplus_", "pissa_"),
    "freeze": ("freeze_trainable", "freeze_extra"),
    "oft": ("oft_",),
}
LOW_RANK = ("use_galore", "use_apollo", "use_badam")
OPTIMIZERS = (*LOW_RANK, "loraplus_lr_ratio", "use_adam_mini", "use_muon")
BITS = {"bnb": (4, 8), "hqq": (1, 2, 3, 4, 5, 6, 8), "eetq": (8,)}
KNOWN_TO_GALORE = ("adamw_torch", "adamw_bnb_8bit", "adamw_8bit", "paged_adamw_8bit", "adafactor")

RULES: tuple[ConfigRule, ...] = (
    ConfigRule(
        "quantization_bit",
        lambda s: s.set("quantization_bit") and s.method not in ("lora", "oft"),
        "works with finetuning_type: lora or oft only",
    ),
    ConfigRule(
        "finetuning_type",
        lambda s: s.model.quantized and s.trains and s.method not in ("lora", "oft"),
        "must be lora or oft: the model's weights are quantized",
    ),
    ConfigRule(
        "pissa_init",
        lambda s: (s.set("quantization_bit") or s.model.quantized) and s.set("pissa_init"),
        "cannot start from a quantized model: leave one of them out",
    ),
    ConfigRule(
        "resize_vocab",
        lambda s: s.set("quantization_bit") and s.set("resize_vocab"),
        "cannot resize a quantized model: leave one of them out",
    ),
    *(
        ConfigRule(
            key,
            lambda s, key=key: s.in_run and s.method != "full" and s.set(key),  # type: ignore[misc]
            "gives the embedding new rows, and an adapter is evaluated on the model without them; leave it out",
        )
        for key in ("resize_vocab", "add_tokens", "add_special_tokens")
    ),
    ConfigRule(
        "use_dora",
        lambda s: s.set("use_dora") and s.set("quantization_bit") and s.get("quantization_method") != "bnb",
        "works with quantization_method: bnb only",
    ),
    ConfigRule(
        "quantization_device_map",
        lambda s: s.set("quantization_device_map") and s.trains,
        "is not for training; leave it out",
    ),
    ConfigRule(
        "fp8", lambda s: s.set("fp8") and s.set("quantization_bit"), "cannot go with quantization_bit: keep one of them"
    ),
    ConfigRule("fp16", lambda s: s.set("fp16") and s.set("bf16"), "cannot go with bf16: keep one of them"),
    ConfigRule("fp16", lambda s: s.set("fp16") and s.set("pure_bf16"), "cannot go with pure_bf16: keep one of them"),
    ConfigRule(
        "fp16_full_eval",
        lambda s: s.set("fp16_full_eval") and s.set("bf16_full_eval"),
        "cannot go with bf16_full_eval: keep one of them",
    ),
    ConfigRule(
        "use_llama_pro",
        lambda s: s.set("use_llama_pro") and s.method == "full",
        "works with finetuning_type: freeze or lora only",
    ),
    ConfigRule(
        "freeze_trainable_layers",
        lambda s: s.set("use_llama_pro") and not _divides(s),
        "must divide the model's number of layers for use_llama_pro",
    ),
    ConfigRule(
        "finetuning_type",
        lambda s: s.method == "lora" and s.set(*LOW_RANK),
        "lora cannot go with use_galore, use_apollo or use_badam: write full or leave the optimizer out",
    ),
    ConfigRule(
        "use_galore",
        lambda s: len(s.set(*LOW_RANK)) > 1,
        "only one of use_galore, use_apollo, use_badam can be on",
    ),
    *same_rule(
        ("galore_layerwise", "apollo_layerwise"),
        lambda s, key: s.set(f"use_{key.removesuffix('_layerwise')}") and s.get("gradient_accumulation_steps") != 1,
        "needs gradient_accumulation_steps: 1",
    ),
    ConfigRule(
        "badam_update_ratio",
        lambda s: s.set("use_badam") and s.get("badam_mode") == "ratio" and s.get("badam_update_ratio") <= 1e-6,
        "updates nothing; usual 0.05",
    ),
    ConfigRule(
        "oft_rank",
        lambda s: s.method == "oft" and s.get("oft_rank") != 0 and s.get("oft_block_size") != 0,
        "cannot go with oft_block_size (32 by default): write oft_block_size: 0, or leave oft_rank out",
    ),
    ConfigRule(
        "oft_block_size",
        lambda s: s.method == "oft" and s.get("oft_rank") == 0 and s.get("oft_block_size") == 0,
        "0 needs an oft_rank; usual 32",
    ),
    warning(
        "oft_target",
        lambda s: s.method == "oft" and s.set("oft_target") and s.get("oft_target") != "all",
        "has no effect in this release, which reads lora_target; write it there",
    ),
    ConfigRule(
        "create_new_adapter",
        lambda s: s.set("create_new_adapter"),
        "needs an adapter to start from, which a run does not give; leave it out",
        only="run",
    ),
    warning(
        "create_new_adapter",
        lambda s: not s.in_run and s.set("create_new_adapter") and not s.set("adapter_name_or_path"),
        "has no effect without adapter_name_or_path",
    ),
    ConfigRule(
        "adapter_name_or_path",
        lambda s: s.set("adapter_name_or_path") and s.method != "lora",
        "works with finetuning_type: lora only",
    ),
    ConfigRule(
        "create_new_adapter",
        lambda s: s.set("create_new_adapter") and s.set("adapter_name_or_path") and s.set("quantization_bit"),
        "cannot go with quantization_bit: leave one of them out",
    ),
    ConfigRule(
        "adapter_name_or_path",
        lambda s: (
            s.set("adapter_name_or_path") and s.set("quantization_bit") and len(s.names("adapter_name_or_path")) > 1
        ),
        "names several adapters, and a quantized model takes one; merge them first",
    ),
    ConfigRule(
        "freeze_trainable_layers",
        lambda s: s.method == "freeze" and 0 < s.model.layers < abs(s.get("freeze_trainable_layers")),
        "is more layers than the model has",
    ),
    ConfigRule(
        "freeze_trainable_layers",
        lambda s: s.method == "freeze" and s.get("freeze_trainable_layers") == 0,
        "0 trains nothing; usual 2",
    ),
    *same_rule(
        ("image_max_pixels", "video_max_pixels"),
        lambda s, key: s.get(key) < s.get(key.replace("max", "min")),
        "is below the least number of pixels (image_min_pixels, video_min_pixels)",
    ),
    ConfigRule(
        "export_quantization_dataset",
        lambda s: s.set("export_quantization_bit") and not s.set("export_quantization_dataset"),
        "is missing and export_quantization_bit needs it",
    ),
    ConfigRule(
        "infer_backend",
        lambda s: s.get("infer_backend") not in ("huggingface", None),
        "is not for training; leave it out",
    ),
    ConfigRule(
        "flash_attn",
        lambda s: s.get("flash_attn") == "fa3" and s.model.model_type != "gpt_oss",
        "fa3 is for gpt_oss models only; write auto or leave it out",
    ),
    warning(
        "flash_attn",
        lambda s: s.get("flash_attn") == "fa2" and (s.device == "cpu" or not s.catalog.has_package("flash_attn")),
        "is not there and falls back silently; write auto or leave it out",
    ),
    ConfigRule(
        "shift_attn",
        lambda s: s.set("shift_attn") and s.model.model_type == "llama" and s.version("transformers") >= (4, 48),
        "needs transformers below 4.48; leave it out",
    ),
    warning(
        "shift_attn",
        lambda s: s.set("shift_attn") and s.model.model_type not in ("llama", "unknown"),
        "is for llama models only and has no effect",
    ),
    warning(
        "init_special_tokens",
        lambda s: str(s.get("init_special_tokens")).startswith("desc_") and not s.set("new_special_tokens_config"),
        "needs new_special_tokens_config and falls back to noise_init",
    ),
    warning(
        "pissa_convert",
        lambda s: s.set("pissa_convert") and not s.set("pissa_init"),
        "has no effect without pissa_init",
    ),
    warning(
        "use_mca",
        lambda s: s.set("use_mca"),
        "has no effect here: the engine reads it from the environment (USE_MCA=1)",
    ),
)


def _divides(s: ConfigContext) -> bool:
    layers = s.get("freeze_trainable_layers")
    return bool(layers) and s.model.layers % layers == 0


def method_rules(s: ConfigContext) -> Iterator[KeyProblem]:
    """What is wrong with method, quantization and optimizer together."""
    yield from find_broken_rules(RULES, s)
    yield from _methods(s)
    yield from _bits(s)
    yield from _optimizers(s)


def _methods(s: ConfigContext) -> Iterator[KeyProblem]:
    """Keys of a fine-tuning method that is not the one chosen."""
    for method, prefixes in METHOD_PREFIXES.items():
        for key in s.config.values:
            if s.method == method or not s.set(key):
                continue
            if method == "lora" and key in LORA_ONLY:
                yield "error", key, f"works with finetuning_type: lora only, and this is {s.method}"
            elif key.startswith(prefixes) and not _shared(s, key):
                yield "warning", key, f"has no effect: finetuning_type is {s.method}, not {method}"


def _shared(s: ConfigContext, key: str) -> bool:
    """Keys that a second method respects."""
    return (key == "lora_target" and s.method == "oft") or (
        key == "freeze_trainable_layers" and s.method == "lora" and bool(s.set("use_llama_pro"))
    )


def _bits(s: ConfigContext) -> Iterator[KeyProblem]:
    bits, method = s.get("quantization_bit"), str(s.get("quantization_method"))
    if bits is None:
        if s.set("quantization_method") and not s.model.quantized:
            yield "warning", "quantization_method", "has no effect without quantization_bit"
        return
    if method not in BITS:
        yield "error", "quantization_method", f"{method} does not quantize while loading; write bnb, hqq or eetq"
    elif bits not in BITS[method]:
        right = " or ".join(map(str, BITS[method]))
        yield "error", "quantization_bit", f"{bits} is nothing that {method} quantizes to; write {right}"


def _optimizers(s: ConfigContext) -> Iterator[KeyProblem]:
    chosen = s.set(*OPTIMIZERS)
    if len(chosen) > 1 and len(s.set(*LOW_RANK)) < 2:
        yield "error", chosen[1], f"has no effect beside {chosen[0]}; keep one of them"
    known = {"use_galore": KNOWN_TO_GALORE, "use_apollo": ("adamw_torch",)}
    for key in s.set(*known):
        if s.get("optim") not in known[key]:
            level = "error" if s.set("optim") else "warning"
            yield level, "optim", f"{s.get('optim')} is unknown to {key}; write adamw_torch"  # type: ignore[misc]
