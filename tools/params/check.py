"""Says what is wrong with a `train.yaml` before anything runs: one sentence a finding, with what would be right."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator
from typing import Any

from tuneloop.tools.params.catalog import Catalog, Parameter
from tuneloop.tools.params.config_text import Config, ConfigError, parse_config
from tuneloop.tools.params.conflicts import broken_rules
from tuneloop.tools.params.finding import Finding, options, shown
from tuneloop.tools.params.fitness import misfits
from tuneloop.tools.params.memory import memory_finding
from tuneloop.tools.params.model_card import ModelCard
from tuneloop.tools.params.profile import overwritten, refusal
from tuneloop.tools.params.ranges import ANY, RANGES
from tuneloop.tools.params.situation import Situation

# What people and models write, and what this engine calls it.
KNOWN_AS = {
    "lr": "learning_rate",
    "batch_size": "per_device_train_batch_size",
    "train_batch_size": "per_device_train_batch_size",
    "epochs": "num_train_epochs",
    "num_epochs": "num_train_epochs",
    "steps": "max_steps",
    "max_seq_length": "cutoff_len",
    "max_seq_len": "cutoff_len",
    "block_size": "cutoff_len",
    "r": "lora_rank",
    "rank": "lora_rank",
    "lora_r": "lora_rank",
    "target_modules": "lora_target",
    "optimizer": "optim",
    "scheduler": "lr_scheduler_type",
    "evaluation_strategy": "eval_strategy",
    "no_cuda": "use_cpu",
    "load_in_4bit": "quantization_bit",
    "load_in_8bit": "quantization_bit",
    "gradient_clipping": "max_grad_norm",
}
KIND_NAMES = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "list": "a list",
    "dict": "a mapping",
    "none": "null",
}


def check_config(
    text: str, catalog: Catalog, model: ModelCard, device: str, memory: int | None = None
) -> list[Finding]:
    """Findings by line; none of level error means that training may start.

    `device` is cpu or the accelerator's kind; `memory` the bytes a training may use there, None: not known.
    """
    try:
        config = parse_config(text)
    except ConfigError as e:
        return [Finding("error", e.line, "", e.text)]
    single = [finding for key in config.values for finding in _check_key(key, config, catalog)]
    bad = {finding.key for finding in single}
    sound = Config({k: v for k, v in config.values.items() if k not in bad}, config.lines)
    together = _check_whole(Situation(sound, catalog, model, device), memory)
    return sorted([*single, *(f for f in together if f.key not in bad)], key=lambda f: f.line)


def errors(findings: Iterable[Finding]) -> list[str]:
    """The errors as lines."""
    return [str(f) for f in findings if f.level == "error"]


def closest(name: str, catalog: Catalog) -> str | None:
    """The parameter that was probably meant."""
    if name in KNOWN_AS:
        return KNOWN_AS[name]
    near = difflib.get_close_matches(name.lower().replace("-", "_"), catalog.parameters, n=1, cutoff=0.7)
    return near[0] if near else None


def _check_key(key: str, config: Config, catalog: Catalog) -> Iterator[Finding]:
    value, line = config.values[key], config.lines[key]
    parameter = catalog.parameters.get(key)
    if parameter is None:
        near = closest(key, catalog)
        hint = f"; did you mean {near}?" if near else "; leave it out"
        yield Finding("error", line, key, f"is no parameter of this release{hint}")
    elif not parameter.settable:
        yield Finding("error", line, key, "is derived by the engine; leave it out")
    elif refused := refusal(key, value):
        yield Finding("error", line, key, refused)
    elif wrong := _value(parameter, value, catalog):
        yield Finding("error", line, key, wrong)


def _value(parameter: Parameter, value: Any, catalog: Catalog) -> str | None:
    """What is wrong with a value by itself."""
    if parameter.name == "template" and isinstance(value, str) and value not in catalog.templates:
        near = difflib.get_close_matches(value, catalog.templates, n=1)
        return (
            f"{shown(value)} is no template of this release; {f'did you mean {near[0]}?' if near else 'leave it out'}"
        )
    wrong = _type(parameter, value)
    if wrong or isinstance(value, bool) or not isinstance(value, int | float):
        return wrong
    return RANGES.get(parameter.name, ANY).complaint(value)


def _type(parameter: Parameter, value: Any) -> str | None:
    kinds, choices = parameter.kinds, parameter.choices
    if _fits(value, kinds) or any(value == c and type(value) is type(c) for c in choices):
        return None
    if choices:
        if isinstance(value, bool) and "no" in choices:
            return f'{shown(value)} is what YAML makes of no; write "no" in quotes, or one of {options(choices)}'
        return f"{shown(value)} is not among {options(choices)}"
    right = " or ".join(KIND_NAMES[k] for k in sorted(kinds - {"none"}) if k in KIND_NAMES) or "null"
    return f"{shown(value)} is {_kind_name(value)}; right is {right}{_example(parameter, value)}"


def _fits(value: Any, kinds: frozenset[str]) -> bool:
    """Whether a YAML value has one of the kinds; a whole number is a number, a boolean is not."""
    match value:
        case None:
            return "none" in kinds
        case bool():
            return "bool" in kinds
        case int():
            return bool(kinds & {"int", "float"})
        case float():
            return "float" in kinds
    return type(value).__name__ in kinds


def _kind_name(value: Any) -> str:
    return "text" if isinstance(value, str) else KIND_NAMES.get(type(value).__name__, "nothing this engine takes")


def _example(parameter: Parameter, value: Any) -> str:
    """What to write instead, where the value shows what was meant."""
    if parameter.kinds & {"int", "float"} and isinstance(value, str):
        try:
            return f", {float(value):g} without quotes"
        except ValueError:
            return ""
    if "int" in parameter.kinds and isinstance(value, float) and math.isfinite(value):
        return f", e.g. {max(1, round(value))}"
    return ""


def _check_whole(situation: Situation, memory: int | None) -> Iterator[Finding]:
    """What only shows when all keys are seen together."""
    lines = situation.config.lines
    for level, key, text in (*broken_rules(situation), *misfits(situation)):
        yield Finding(level, lines.get(key, 0), key, text)
    for key in overwritten(situation.config.values):
        yield Finding("note", lines[key], key, "is set by the run; this value is not used")
    if memory is not None and (finding := memory_finding(situation, memory)):
        yield finding
