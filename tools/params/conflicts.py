"""Rules about two or more keys: what the engine refuses after seconds, and what it lets through silently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tuneloop.tools.params.finding import Level
from tuneloop.tools.params.situation import Situation


@dataclass(frozen=True)
class Rule:
    """`broken` says whether the config breaks it; `key` is the line to change."""

    key: str
    broken: Callable[[Situation], object]
    text: str
    level: Level = "error"


LORA_ONLY = ("use_rslora", "use_dora", "pissa_init", "loraplus_lr_ratio")
METHOD_PREFIXES = {
    "lora": ("lora_", "loraplus_", "pissa_"),
    "freeze": ("freeze_trainable", "freeze_extra"),
    "oft": ("oft_",),
}
SPECIAL_OPTIMIZERS = ("use_galore", "use_apollo", "use_badam")
LOSSES = ("use_dft_loss", "use_asft_loss", "use_eaft_loss")
VALUE_NEEDED = {"cosine_with_min_lr": "min_lr", "warmup_stable_decay": "num_decay_steps"}

RULES: tuple[Rule, ...] = (
    Rule(
        "mask_history",
        lambda s: s.set("mask_history") and s.set("train_on_prompt"),
        "cannot go with train_on_prompt: keep one of them",
    ),
    Rule(
        "streaming", lambda s: s.set("streaming") and s.get("max_steps") == -1, "needs max_steps, e.g. max_steps: 300"
    ),
    Rule(
        "max_samples",
        lambda s: s.set("streaming") and s.set("max_samples"),
        "cannot go with streaming: leave one of them out",
    ),
    Rule(
        "val_size",
        lambda s: s.set("streaming") and 0 < s.get("val_size") < 1,
        "is a share, and streaming needs a number of rows, e.g. 100",
    ),
    Rule(
        "dataloader_num_workers",
        lambda s: s.set("streaming") and s.get("dataloader_num_workers") == 0,
        "0 ends a streamed training at once; write 1",
    ),
    Rule(
        "val_size",
        lambda s: s.get("val_size") > 1 and s.get("val_size") != int(s.get("val_size")),
        "above 1 counts rows and must be whole; write a whole number or a share such as 0.1",
    ),
    Rule(
        "eval_strategy",
        lambda s: s.evaluates and not s.get("val_size"),
        'measures nothing without val_size: add val_size: 0.1 or write eval_strategy: "no"',
    ),
    Rule(
        "do_eval",
        lambda s: s.set("do_eval") and not s.get("val_size"),
        "measures nothing without val_size: add val_size: 0.1",
    ),
    Rule(
        "val_size",
        lambda s: s.get("val_size") and not s.evaluates and not s.set("do_eval"),
        "holds rows back that nothing measures: add eval_strategy: steps or leave it out",
        "warning",
    ),
    Rule(
        "load_best_model_at_end",
        lambda s: s.set("load_best_model_at_end") and not s.evaluates,
        "needs eval_strategy: steps or epoch, and val_size",
    ),
    Rule(
        "early_stopping_steps",
        lambda s: s.set("early_stopping_steps") and not s.set("load_best_model_at_end"),
        "needs load_best_model_at_end: true, eval_strategy: steps and val_size",
    ),
    Rule(
        "metric_for_best_model",
        lambda s: s.set("early_stopping_steps") and not s.set("metric_for_best_model"),
        "is missing and early_stopping_steps needs it: write metric_for_best_model: eval_loss",
    ),
    Rule(
        "lr_scheduler_type",
        lambda s: s.get("lr_scheduler_type") in ("reduce_lr_on_plateau", "greedy") and not s.evaluates,
        "needs eval_strategy: steps and val_size; or write cosine",
    ),
    Rule(
        "lr_scheduler_kwargs",
        lambda s: s.get("lr_scheduler_type") in VALUE_NEEDED and not s.get("lr_scheduler_kwargs"),
        "is missing and lr_scheduler_type needs it (min_lr or num_decay_steps); or write cosine there",
    ),
    Rule(
        "interleave_probs",
        lambda s: s.set("interleave_probs") and s.get("mix_strategy") == "concat",
        "needs mix_strategy: interleave_under or interleave_over",
    ),
    Rule("fp16", lambda s: s.set("fp16") and s.set("bf16"), "cannot go with bf16: keep one of them"),
    Rule(
        "fp8", lambda s: s.set("fp8") and s.set("quantization_bit"), "cannot go with quantization_bit: keep one of them"
    ),
    Rule(
        "quantization_bit",
        lambda s: s.set("quantization_bit") and s.method not in ("lora", "oft"),
        "works with finetuning_type: lora or oft only",
    ),
    Rule(
        "pissa_init",
        lambda s: s.set("quantization_bit") and s.set("pissa_init"),
        "cannot start from a quantized model: leave one of them out",
    ),
    Rule(
        "resize_vocab",
        lambda s: s.set("quantization_bit") and s.set("resize_vocab"),
        "cannot resize a quantized model: leave one of them out",
    ),
    Rule(
        "use_llama_pro",
        lambda s: s.set("use_llama_pro") and s.method == "full",
        "works with finetuning_type: freeze or lora only",
    ),
    Rule(
        "finetuning_type",
        lambda s: s.method == "lora" and s.set(*SPECIAL_OPTIMIZERS),
        "lora cannot go with use_galore, use_apollo or use_badam: write full or leave the optimizer out",
    ),
    Rule(
        "use_galore",
        lambda s: len(s.set(*SPECIAL_OPTIMIZERS)) > 1,
        "only one of use_galore, use_apollo, use_badam can be on",
    ),
    Rule(
        "use_dft_loss",
        lambda s: len(s.set(*LOSSES)) > 1,
        "only one of use_dft_loss, use_asft_loss, use_eaft_loss can be on",
    ),
    Rule(
        "use_asft_loss",
        lambda s: s.set("use_asft_loss") and s.method == "lora",
        "has no reference model with lora and fails at the first step; write finetuning_type: full",
    ),
    Rule(
        "create_new_adapter",
        lambda s: s.set("create_new_adapter"),
        "needs an adapter to start from, which a run does not give; leave it out",
    ),
    Rule(
        "dataloader_prefetch_factor",
        lambda s: s.set("dataloader_prefetch_factor") and not s.get("dataloader_num_workers"),
        "needs dataloader_num_workers: 1 or more",
    ),
    Rule(
        "freeze_trainable_layers",
        lambda s: s.method == "freeze" and abs(s.get("freeze_trainable_layers")) > s.model.layers,
        "is more layers than the model has",
    ),
    Rule(
        "freeze_trainable_layers",
        lambda s: s.method == "freeze" and s.get("freeze_trainable_layers") == 0,
        "0 trains nothing; usual 2",
    ),
    Rule(
        "warmup_ratio",
        lambda s: s.set("warmup_ratio") and s.set("warmup_steps"),
        "replaces warmup_steps; keep one of them",
        "warning",
    ),
    Rule(
        "warmup_steps",
        lambda s: s.get("max_steps") > 0 and s.get("warmup_steps") >= max(1, s.get("max_steps")),
        "is the whole training: the learning rate never reaches its value; usual 0–10 % of max_steps",
        "warning",
    ),
    Rule(
        "flash_attn",
        lambda s: s.get("flash_attn") in ("fa2", "fa3") and s.device == "cpu",
        "does not exist on the CPU and falls back silently; write auto or leave it out",
        "warning",
    ),
)


def broken_rules(situation: Situation) -> Iterator[tuple[Level, str, str]]:
    """Level, key and text of every rule that the config breaks."""
    for rule in RULES:
        if rule.broken(situation):
            yield rule.level, rule.key, rule.text
    yield from _methods(situation)


def _methods(situation: Situation) -> Iterator[tuple[Level, str, str]]:
    """Keys of a fine-tuning method that is not the one chosen."""
    for method, prefixes in METHOD_PREFIXES.items():
        for key in situation.config.values:
            if situation.method == method or not situation.set(key):
                continue
            if method == "lora" and key in LORA_ONLY:
                yield "error", key, f"works with finetuning_type: lora only, and this is {situation.method}"
            elif key.startswith(prefixes):
                yield "warning", key, f"has no effect: finetuning_type is {situation.method}, not {method}"
