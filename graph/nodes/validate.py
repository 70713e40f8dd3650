"""validate: checks 1 and 2 of the ladder: the config against the installed release, the script on samples."""

from __future__ import annotations

from typing import Any

from tuneloop.core.errors import RecipeError
from tuneloop.core.files import read_text
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.build_data import run_data_script
from tuneloop.graph.outcomes.warnings import keep_config_warnings
from tuneloop.graph.steering.compliance import config_violations
from tuneloop.tools.config.config_text import readable_train_config
from tuneloop.tools.contamination.splits import make_guard
from tuneloop.tools.data_script.dataset_build import gate_sample
from tuneloop.tools.data_script.run import script_findings
from tuneloop.tools.training import methods
from tuneloop.tools.training.grpo_recipe import check_sample, check_start

LEVELS = ("error", "warning")


def validate(ctx: Context) -> dict[str, Any]:
    """Cheap first: config, script text, script on samples, its rows."""
    check_config_file(ctx)
    findings = script_findings(ctx.run_tools, read_text(ctx.folder.script))
    if findings:
        raise RecipeError("; ".join(findings), culprit="script")
    gate_sample(ctx.run_tools, ctx.folder, run_data_script(ctx, ctx.folder, debug=True))
    if methods.by_grpo(ctx.folder):
        check_sample(ctx.run_tools, ctx.folder)
    return {"stage": "build_data"}


def check_config_file(ctx: Context) -> None:
    """Raises RecipeError with every error that the config check finds, and every violation of a directive."""
    refuse_overlaps(ctx)
    found = methods.check_recipe(ctx.run_tools, read_text(ctx.folder.config))
    said = {level: [f"train.yaml:{f.line} {f.key}: {f.text}" for f in found if f.level == level] for level in LEVELS}
    keep_config_warnings(ctx.folder, said["warning"])
    errors = said["error"] + config_violations(ctx, readable_train_config(ctx.folder))
    if errors:
        raise RecipeError("\n".join(errors), culprit="config")
    if methods.by_grpo(ctx.folder):
        check_start(ctx.run_tools, ctx.folder)


def refuse_overlaps(ctx: Context) -> None:
    """Texts of the config reach the training (`default_system`): raises RecipeError, which quotes no item, where one holds one."""
    config = readable_train_config(ctx.folder)
    texts = {key: value for key, value in config.values.items() if not isinstance(value, bool | int | float)}
    guard = make_guard(ctx.run_tools.benchmarks, ctx.run_tools.validation_limit)
    hits = zip(texts, guard.find(texts.values()), strict=True)
    lines = [f":{config.lines.get(key, 0)}" for key, hit in hits if hit is not None]
    if not lines and guard.overlaps(read_text(ctx.folder.config)) is not None:
        lines = [""]
    if lines:
        said = "holds an item of a benchmark of this run; write a text of your own"
        raise RecipeError("\n".join(f"train.yaml{line}: {said}" for line in lines), culprit="config")
