"""Rules about the stage: what each trains, which keys it respects, and what the installed packages make of it."""

from __future__ import annotations

from collections.abc import Iterator

from tuneloop.tools.config.context import ConfigContext
from tuneloop.tools.config.finding import KeyProblem
from tuneloop.tools.config.rule import ConfigRule, find_broken_rules, warning

LOSSES = ("use_dft_loss", "use_asft_loss", "use_eaft_loss")
# Keys that only some stages use.
HEEDED: dict[str, tuple[str, ...]] = {
    "dpo_label_smoothing": ("dpo",),
    "simpo_gamma": ("dpo",),
    "pref_bco_weight": ("dpo",),
    "ld_alpha": ("dpo",),
    "pref_beta": ("dpo", "kto"),
    "pref_ftx": ("dpo", "kto"),
    "ref_model": ("dpo", "kto", "ppo", "sft"),
    "kto_chosen_weight": ("kto",),
    "kto_rejected_weight": ("kto",),
    "reward_model": ("ppo",),
    **dict.fromkeys(LOSSES, ("sft",)),
    **dict.fromkeys(("ppo_buffer_size", "ppo_epochs", "ppo_score_norm", "ppo_target", "ppo_whiten_rewards"), ("ppo",)),
}

RULES: tuple[ConfigRule, ...] = (
    ConfigRule(
        "pref_loss",
        lambda s: s.set("pref_loss") and s.stage != "dpo",
        "works with stage: dpo only; write that, or leave it out",
    ),
    ConfigRule(
        "predict_with_generate",
        lambda s: s.set("predict_with_generate") and s.stage != "sft",
        "works with stage: sft only; leave it out",
    ),
    ConfigRule(
        "predict_with_generate",
        lambda s: s.set("predict_with_generate") and s.set("compute_accuracy"),
        "cannot go with compute_accuracy: keep one of them",
    ),
    ConfigRule(
        "do_predict",
        lambda s: s.set("do_predict") and s.stage == "sft" and not s.set("predict_with_generate"),
        "needs predict_with_generate: true",
    ),
    ConfigRule(
        "load_best_model_at_end",
        lambda s: s.set("load_best_model_at_end") and s.stage in ("rm", "ppo"),
        "does not work in this stage; leave it out",
    ),
    ConfigRule(
        "reward_model", lambda s: s.stage == "ppo" and not s.set("reward_model"), "is missing and stage: ppo needs it"
    ),
    ConfigRule(
        "reward_model_type",
        lambda s: s.stage == "ppo" and s.get("reward_model_type") == "lora" and s.method != "lora",
        "lora needs finetuning_type: lora; write full",
    ),
    ConfigRule("do_train", lambda s: s.stage == "ppo" and not s.trains, "is not on, and stage: ppo can only train"),
    ConfigRule(
        "shift_attn", lambda s: s.stage == "ppo" and s.set("shift_attn"), "does not work in stage: ppo; leave it out"
    ),
    ConfigRule(
        "dpo_label_smoothing",
        lambda s: s.stage == "dpo" and s.get("pref_loss") != "sigmoid" and s.get("dpo_label_smoothing") > 1e-6,
        "works with pref_loss: sigmoid only; leave it out",
    ),
    ConfigRule(
        "pissa_init",
        lambda s: s.set("pissa_init") and (s.stage in ("ppo", "kto") or (s.stage == "dpo" and _has_reference(s))),
        "does not work in this stage, which compares with the model as it was; leave it out",
    ),
    ConfigRule(
        "finetuning_type",
        lambda s: s.stage == "rm" and s.method in ("full", "freeze") and s.model.tied,
        "must be lora for stage: rm: head and embedding of this model are one tensor, which cannot be saved then",
    ),
    warning(
        "resume_from_checkpoint",
        lambda s: s.set("resume_from_checkpoint") and s.stage in ("rm", "ppo") and s.method in ("full", "freeze"),
        "has no effect in this stage",
    ),
    warning(
        "ref_model",
        lambda s: s.set("ref_model") and s.stage == "dpo" and not _has_reference(s),
        "has no effect: this pref_loss has no reference model",
    ),
    ConfigRule(
        "use_dft_loss",
        lambda s: len(s.set(*LOSSES)) > 1,
        "only one of use_dft_loss, use_asft_loss, use_eaft_loss can be on",
    ),
    ConfigRule(
        "use_asft_loss",
        lambda s: s.set("use_asft_loss") and s.method in ("lora", "oft"),
        "has no reference model with lora and fails at the first step; write finetuning_type: full",
    ),
    warning(
        "train_from_scratch",
        lambda s: s.set("train_from_scratch") and s.method != "full",
        "leaves random weights below the adapters; write finetuning_type: full",
    ),
)


def _has_reference(s: ConfigContext) -> bool:
    return s.get("pref_loss") not in ("orpo", "simpo")


def stage_rules(s: ConfigContext) -> Iterator[KeyProblem]:
    """What is wrong with the stage and its keys."""
    yield from _ppo(s)
    yield from _preference_loss(s)
    yield from find_broken_rules(RULES, s)
    for key, stages in HEEDED.items():
        if s.set(key) and s.stage not in stages:
            yield "warning", key, f"has no effect in stage: {s.stage}"


def _ppo(s: ConfigContext) -> Iterator[KeyProblem]:
    trl = s.version("trl")
    if s.stage == "ppo" and trl > (0, 9, 6):
        have = ".".join(map(str, trl))
        yield (
            "error",
            "stage",
            f"ppo needs the package trl 0.9.6 or older, and this release runs with {have} only; write dpo or kto",
        )


def _preference_loss(s: ConfigContext) -> Iterator[KeyProblem]:
    """Since trl 0.20 the loss is an argument that the engine does not pass: all of them compute sigmoid."""
    loss, trl = s.get("pref_loss"), s.version("trl")
    if s.stage != "dpo" or loss not in ("hinge", "ipo", "kto_pair"):
        return
    if trl >= (0, 20):
        have = ".".join(map(str, trl))
        yield (
            "error",
            "pref_loss",
            f"{loss} computes sigmoid with the engine's trl {have}; write sigmoid, orpo or simpo",
        )
    elif loss == "kto_pair" and trl:
        yield "error", "pref_loss", "kto_pair is unknown to the engine's trl; write stage: kto"
