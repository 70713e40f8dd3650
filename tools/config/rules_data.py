"""Rules about the data keys: streaming, mixing, held-out rows, masks, packing."""

from __future__ import annotations

from collections.abc import Iterator

from tuneloop.tools.config.context import ConfigContext
from tuneloop.tools.config.finding import KeyProblem
from tuneloop.tools.config.installed import source_has
from tuneloop.tools.config.rule import ConfigRule, find_broken_rules, same_rule, warning

RULES: tuple[ConfigRule, ...] = (
    ConfigRule(
        "mask_history",
        lambda s: s.set("mask_history") and s.set("train_on_prompt"),
        "cannot go with train_on_prompt: keep one of them",
    ),
    *same_rule(
        ("mask_history", "train_on_prompt", "neat_packing"),
        lambda s, _: s.stage != "sft",
        "works with stage: sft only; leave it out",
    ),
    ConfigRule(
        "train_on_prompt",
        lambda s: (
            s.set("train_on_prompt")
            and (t := s.catalog.templates.get(str(s.get("template")))) is not None
            and t.efficient_eos
        ),
        "does not work with this template, which ends a turn by its next token; leave it out",
    ),
    ConfigRule(
        "streaming", lambda s: s.set("streaming") and s.get("max_steps") == -1, "needs max_steps, e.g. max_steps: 300"
    ),
    ConfigRule(
        "max_samples",
        lambda s: s.set("streaming") and s.set("max_samples"),
        "cannot go with streaming: leave one of them out",
    ),
    ConfigRule(
        "val_size",
        lambda s: s.set("streaming") and 0 < s.get("val_size") < 1,
        "is a share, and streaming needs a number of rows, e.g. 100",
    ),
    ConfigRule(
        "dataloader_num_workers",
        lambda s: s.set("streaming") and s.get("dataloader_num_workers") == 0,
        "0 ends a streamed training at once; write 1",
    ),
    ConfigRule(
        "val_size",
        lambda s: s.get("val_size") > 1 and s.get("val_size") != int(s.get("val_size")),
        "above 1 counts rows and must be whole; write a whole number or a share such as 0.1",
    ),
    ConfigRule(
        "val_size",
        lambda s: isinstance(s.get("val_size"), float) and s.get("val_size") == 1,
        "1.0 is the share of all rows and leaves none to train on; write 0.1, or 1 for one row",
    ),
    ConfigRule(
        "val_size",
        lambda s: s.get("val_size") > 1e-6 and s.set("eval_dataset"),
        "cannot go with eval_dataset: keep one of them",
    ),
    ConfigRule(
        "val_size",
        lambda s: not s.in_run and s.get("val_size") > 1e-6 and not s.on("dataset"),
        "holds rows of no data set back: add dataset, or leave it out",
    ),
    warning(
        "val_size",
        lambda s: s.get("val_size") and not s.evaluates and not s.set("do_eval", "do_predict"),
        "holds rows back that nothing measures: add eval_strategy: steps or leave it out",
    ),
    ConfigRule(
        "interleave_probs",
        lambda s: s.set("interleave_probs") and s.get("mix_strategy") == "concat",
        "needs mix_strategy: interleave_under or interleave_over",
    ),
    ConfigRule(
        "mix_strategy",
        lambda s: (
            s.get("mix_strategy") == "interleave_once"
            and len(s.names("dataset")) > 1
            and not source_has(s.catalog.site_packages, "datasets/combine.py", "all_exhausted_without_replacement")
        ),
        "interleave_once is not known to the engine's package datasets; write interleave_under or interleave_over",
    ),
    ConfigRule(
        "packing",
        lambda s: s.set("neat_packing") and s.config.values.get("packing") is False,
        "false contradicts neat_packing, which turns it on; leave one of them out",
    ),
    warning(
        "packing",
        lambda s: s.set("packing") and s.stage not in ("sft", "pt"),
        "has no effect in this stage but a shorter cutoff_len; leave it out",
    ),
    warning(
        "eval_on_each_dataset",
        lambda s: s.set("eval_on_each_dataset") and not s.on("eval_dataset"),
        "has no effect without eval_dataset",
    ),
    warning(
        "buffer_size", lambda s: s.set("buffer_size") and not s.set("streaming"), "has no effect without streaming"
    ),
)


def data_rules(s: ConfigContext) -> Iterator[KeyProblem]:
    """What is wrong with the data keys together."""
    yield from find_broken_rules(RULES, s)
    yield from _shares(s)


def _shares(s: ConfigContext) -> Iterator[KeyProblem]:
    """`interleave_probs`: one for each data set, together 1."""
    if not s.set("interleave_probs"):
        return
    try:
        shares = [float(part) for part in s.names("interleave_probs")]
    except ValueError:
        yield "error", "interleave_probs", "is no list of numbers; write e.g. 0.7,0.3"
        return
    for key in ("dataset", "eval_dataset"):
        if s.on(key) and len(s.names(key)) != len(shares):
            many = f"{len(shares)} share{'s' * (len(shares) != 1)} for {len(s.names(key))} of {key}"
            yield "error", "interleave_probs", f"has {many}; write one for each"
    if any(share < 0 for share in shares) or abs(sum(shares) - 1) > 1e-6:
        yield "error", "interleave_probs", f"adds up to {sum(shares):g}; shares are above 0 and add up to 1"
