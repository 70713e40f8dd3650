"""Rules about steps, schedule, measuring, saving and stopping."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tuneloop.tools.config.config_text import json_value
from tuneloop.tools.config.context import ConfigContext
from tuneloop.tools.config.finding import KeyProblem
from tuneloop.tools.config.rule import ConfigRule, find_broken_rules, same_rule, warning

PLATEAU = ("reduce_lr_on_plateau", "greedy")
FLAT = ("constant", *PLATEAU)  # schedules without a warmup
BEST = ("metric_for_best_model", "load_best_model_at_end")
# Arguments that a schedule takes beyond the number of steps; None: any, they are not looked at.
TAKES: dict[str, frozenset[str] | None] = {
    "linear": frozenset(),
    "cosine": frozenset({"num_cycles"}),
    "cosine_with_restarts": frozenset({"num_cycles"}),
    "polynomial": frozenset({"lr_end", "power"}),
    "constant": None,
    "constant_with_warmup": None,
    "inverse_sqrt": frozenset({"timescale"}),
    "reduce_lr_on_plateau": frozenset(
        ["mode", "factor", "patience", "threshold", "threshold_mode", "cooldown", "min_lr", "eps"]
    ),
    "cosine_with_min_lr": frozenset({"num_cycles", "min_lr", "min_lr_rate"}),
    "cosine_warmup_with_min_lr": frozenset({"num_cycles", "min_lr", "min_lr_rate", "warmup_lr_rate"}),
    "warmup_stable_decay": frozenset(
        ["num_decay_steps", "num_stable_steps", "warmup_type", "decay_type", "min_lr_ratio", "num_cycles"]
    ),
    "greedy": None,
}
# Arguments of schedules that are a word.
SHAPES = ("linear", "cosine", "1-sqrt")
WORDS = {"warmup_type": SHAPES, "decay_type": SHAPES, "mode": ("min", "max"), "threshold_mode": ("rel", "abs")}

RULES: tuple[ConfigRule, ...] = (
    ConfigRule(
        "eval_strategy",
        lambda s: s.evaluates and not s.has_eval_data and not _sent(s),
        'measures nothing without val_size: add val_size: 0.1 or write eval_strategy: "no"',
    ),
    *same_rule(
        ("do_eval", "do_predict", "predict_with_generate"),
        lambda s, _: not s.has_eval_data,
        "measures nothing without val_size: add val_size: 0.1",
    ),
    ConfigRule(
        "eval_on_start",
        lambda s: s.set("eval_on_start") and not s.has_eval_data,
        "measures nothing without val_size: add val_size: 0.1 or leave it out",
    ),
    ConfigRule(
        "load_best_model_at_end",
        lambda s: s.set("load_best_model_at_end") and not s.evaluates,
        "needs eval_strategy: steps or epoch, and val_size",
    ),
    ConfigRule(
        "early_stopping_steps",
        lambda s: s.set("early_stopping_steps") and not s.evaluates,
        "needs load_best_model_at_end: true, eval_strategy: steps and val_size",
    ),
    ConfigRule(
        "early_stopping_steps",
        lambda s: (
            s.set("early_stopping_steps")
            and s.evaluates
            and not s.set(*BEST)
            and s.get("lr_scheduler_type") not in PLATEAU
        ),
        "needs load_best_model_at_end: true, or metric_for_best_model: eval_loss",
    ),
    ConfigRule(
        "greater_is_better",
        lambda s: (
            s.set("greater_is_better")
            and s.set(*BEST)
            and str(s.get("metric_for_best_model") or "loss").endswith("loss")
        ),
        "true keeps the highest loss; leave it out",
    ),
    ConfigRule(
        "lr_scheduler_type",
        lambda s: s.get("lr_scheduler_type") in PLATEAU and not s.evaluates,
        "needs eval_strategy: steps and val_size; or write cosine",
    ),
    ConfigRule(
        "dataloader_prefetch_factor",
        lambda s: s.set("dataloader_prefetch_factor") and not s.get("dataloader_num_workers"),
        "needs dataloader_num_workers: 1 or more",
    ),
    ConfigRule(
        "dataloader_persistent_workers",
        lambda s: s.set("dataloader_persistent_workers") and not s.get("dataloader_num_workers"),
        "needs dataloader_num_workers: 1 or more",
    ),
    ConfigRule(
        "ddp_backend",
        lambda s: s.set("ddp_backend") and s.device == "cpu",
        "is for several processes, and on a cpu the engine starts one; leave it out",
    ),
    ConfigRule(
        "fsdp",
        lambda s: s.set("fsdp") and s.device == "cpu",
        "is for several devices, and on a cpu the engine starts one process; leave it out",
    ),
    warning(
        "warmup_ratio",
        lambda s: s.set("warmup_ratio") and s.set("warmup_steps"),
        "replaces warmup_steps; keep one of them",
    ),
    warning(
        "max_steps",
        lambda s: s.get("max_steps") > 0 and s.set("num_train_epochs"),
        "ends the training whatever num_train_epochs says; keep one of them",
    ),
    warning(
        "learning_rate",
        lambda s: s.get("learning_rate") > 0.02,
        "is so high that losses diverge; usual 1e-5–1e-3, for tiny models up to 5e-3",
    ),
    warning(
        "eval_dataset",
        lambda s: s.set("eval_dataset") and not s.evaluates and not s.set("do_eval", "do_predict"),
        "is measured by nothing: add eval_strategy: steps or leave it out",
    ),
    ConfigRule(
        "do_train",
        lambda s: (
            not s.in_run and not s.set("do_train", "do_eval", "do_predict", "predict_with_generate", "eval_strategy")
        ),
        "is not on: nothing would be trained; write do_train: true",
    ),
)


def _sent(s: ConfigContext) -> bool:
    return bool(s.set("do_eval", "do_predict", "predict_with_generate"))


def training_rules(s: ConfigContext) -> Iterator[KeyProblem]:
    """What is wrong with steps, schedule, measuring, saving and stopping together."""
    yield from find_broken_rules(RULES, s)
    yield from _whole_steps(s)
    yield from _best(s)
    yield from _metric(s)
    yield from _schedule(s)
    yield from _optim_args(s)
    if s.get("max_steps") > 0:
        yield from step_problems(s, s.get("max_steps"))


def step_problems(s: ConfigContext, steps: int) -> Iterator[KeyProblem]:
    """What never happens in a training of so many steps: the whole learning rate, or a measurement."""
    warmup, every = s.get("warmup_steps"), s.get("eval_steps")
    if (
        s.set("warmup_steps")
        and not s.set("warmup_ratio")
        and warmup >= steps
        and s.get("lr_scheduler_type") not in FLAT
    ):
        yield (
            "warning",  # the engine trains all the same: a short try of a longer config
            "warmup_steps",
            f"{warmup:g} of {steps} steps in all: the learning rate never reaches its value; usual 0–10 % of them",
        )
    if s.get("eval_strategy") == "steps" and s.set("eval_steps") and every > steps:
        yield (
            "warning",
            "eval_steps",
            f"{every:g} is above the {steps} steps in all: nothing is measured before the end",
        )


def _whole_steps(s: ConfigContext) -> Iterator[KeyProblem]:
    for kind in ("logging", "eval", "save"):
        steps = s.get(f"{kind}_steps")
        used = s.get(f"{kind}_strategy") == "steps" and not (s.in_run and kind != "eval")
        if used and steps is not None and steps > 1 and steps != int(steps):
            yield "error", f"{kind}_steps", f"{steps:g} is above 1 and must be whole; write {round(steps)}"


def _best(s: ConfigContext) -> Iterator[KeyProblem]:
    """The best model is found again only where it was saved; in a run, code sees to that."""
    save, measure = s.get("save_strategy"), s.get("eval_strategy")
    if s.in_run or not s.set("load_best_model_at_end") or not s.evaluates or save == "best":
        return
    if save != measure:
        yield (
            "error",
            "save_strategy",
            f"{save} is not eval_strategy {measure}, and load_best_model_at_end needs both alike",
        )
        return
    saved, measured = s.get("save_steps"), s.get("eval_steps") or s.get("logging_steps")
    if measure != "steps" or not _numbers(saved, measured) or saved % measured == 0:
        return
    shares = (saved < 1) + (measured < 1)
    if shares in (0, 1) or (saved * 1_000_000) % (measured * 1_000_000) != 0:
        yield (
            "error",
            "save_steps",
            f"{saved:g} is no multiple of eval_steps ({measured:g}), and load_best_model_at_end needs that",
        )


def _numbers(*values: Any) -> bool:
    return all(isinstance(v, int | float) and v > 0 for v in values)


def _metric(s: ConfigContext) -> Iterator[KeyProblem]:
    """A metric that no evaluation gives ends the training at the first one."""
    name = s.get("metric_for_best_model")
    if not isinstance(name, str) or not s.evaluates:
        return
    known = set(_metrics(s))
    if name.removeprefix("eval_") not in known and not (s.stage in ("dpo", "kto") and "/" in name):
        hint = {"accuracy": "; add compute_accuracy: true"}.get(name.removeprefix("eval_"), "; write eval_loss")
        yield "error", "metric_for_best_model", f"{name} is measured by no evaluation of this config{hint}"


def _metrics(s: ConfigContext) -> Iterator[str]:
    base = ["loss", "runtime", "samples_per_second", "steps_per_second"]
    if s.stage == "rm" or s.set("compute_accuracy"):
        base.append("accuracy")
    if s.set("predict_with_generate"):
        base += ["rouge-1", "rouge-2", "rouge-l", "bleu-4"]
    if s.set("eval_on_each_dataset"):
        base = [f"{name}_{metric}" for name in s.names("eval_dataset") for metric in base]
    return iter(base)


def _schedule(s: ConfigContext) -> Iterator[KeyProblem]:
    kind, key = str(s.get("lr_scheduler_type")), "lr_scheduler_kwargs"
    given = json_value(s.get(key), s.here) if str(s.get(key)).startswith("{") else s.get(key)
    if isinstance(given, str):
        yield "error", key, "is no mapping; write e.g. {min_lr: 1.0e-6}"
        return
    given = given or {}
    takes = TAKES.get(kind)
    if takes is not None and (wrong := [str(name) for name in given if name not in takes]):
        right = f"right is {', '.join(sorted(takes))}" if takes else "leave it out"
        yield "error", key, f"{wrong[0]} is nothing that lr_scheduler_type {kind} takes; {right}"
    for name, value in given.items():
        if name in WORDS and value not in WORDS[name]:
            yield "error", key, f"{name}: {value} is not among {', '.join(WORDS[name])}"
            return
        if name not in WORDS and isinstance(value, str | bool | None | list):
            yield "error", key, f"{name} is no number; write e.g. {name}: 1.0e-6"
            return
    if kind.endswith("with_min_lr") and ("min_lr" in given) == ("min_lr_rate" in given):
        both = (
            "has min_lr and min_lr_rate; keep one"
            if given.get("min_lr")
            else "is missing and lr_scheduler_type needs it: min_lr, e.g. {min_lr: 1.0e-6}; or write cosine there"
        )
        yield "error", key, both
    least = given.get("lr_end", 1e-7) if kind == "polynomial" else given.get("min_lr", 0)
    if (
        isinstance(least, int | float)
        and kind in ("polynomial", "cosine_with_min_lr", "cosine_warmup_with_min_lr")
        and least >= s.get("learning_rate")
    ):
        yield (
            "error",
            key if s.set(key) else "learning_rate",
            f"ends at {least:g}, not below learning_rate {s.get('learning_rate'):g}",
        )


def _optim_args(s: ConfigContext) -> Iterator[KeyProblem]:
    text = s.get("optim_args")
    if isinstance(text, str) and text and any(part.count("=") != 1 for part in text.split(",")):
        yield "error", "optim_args", "is no list of name=value; write e.g. rank=64,scale=1.0"
