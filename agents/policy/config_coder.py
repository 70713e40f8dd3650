"""The config coder of the offline policy: the parameter server's suggestion with the training plan, checked by it."""

from __future__ import annotations

import asyncio
import math
import re
from typing import Any

import yaml

from tuneloop.agents.policy.evidence import call_or_none, parent_of
from tuneloop.agents.policy.parameter_map import (
    FULL,
    LORA,
    UNSAID,
    ParameterMap,
    Values,
    as_number,
    estimate_tokens,
    first_training,
    match_name,
    read_parameter_map,
    yaml_literal,
)
from tuneloop.agents.policy.situation import BATCH, Situation, read_situation
from tuneloop.agents.policy.training_moves import GRPO, by_grpo
from tuneloop.core.brief import Brief
from tuneloop.core.constraints import constrained
from tuneloop.core.experiment import TrainConfig
from tuneloop.core.protocols import Toolbox

# Cures of a config in words: what a finding asks for, as the validator says it, and what the config coder makes of it.

NEAR = re.compile(r"did you mean '?(\w+)'?\?")
OTHER = re.compile(r"\bwrite (\w+): ([^\s,;]+)")
NUMBER = re.compile(r"\b(?:write|right is|must be|more than the model's \D{0,40}?) ?(-?\d[\d.e-]*)\b")
RENAME = re.compile(r"\bwrite (\w+) for (\w+)")
SET = re.compile(r"\bset (?:the )?([\w ]+?) to ([^\s,;]+)")
LEAVE = re.compile(r"\b(?:leave out|remove|drop) (?:the )?(\w+)")
FACTOR = re.compile(r"learning rate by ([\d.]*\d)")
BATCH_WORDS = ("train batch size", "gradient accumulation steps", "disable gradient checkpointing")
SHORTEST = 20


def repair_of_finding(key: str, text: str) -> str:
    """What a finding of the config check asks for: `write A for B`, `set A to …` or `leave out A`."""
    if near := NEAR.search(text):
        return f"write {near[1]} for {key}"
    asked = [f"set {other} to {value}" for other, value in OTHER.findall(text)]
    value = NUMBER.search(text)
    if asked or value is None:
        return "; ".join((f"leave out {key}", *asked))
    return f"set {key} to {value[1].rstrip('.')}"


async def apply_repairs(
    values: Values, said: str, fresh: Values, parameter_map: ParameterMap, tools: Toolbox
) -> Values:
    """The values after the cures in `said`; what is left out gets the suggested value of `fresh` where it differs."""
    names = {old: new for new, old in RENAME.findall(said)}
    changed = {names.get(key, key): value for key, value in values.items()}
    for words in LEAVE.findall(said):
        changed = without_value(changed, words if "_" in words else await find_parameter(words, changed, tools), fresh)
    for words, text in SET.findall(said):
        changed[await find_parameter(words, changed, tools)] = yaml_literal(text.rstrip("."))
    return change_rate(await halve_batch(changed, said, tools), said, parameter_map)


def without_value(values: Values, key: str, fresh: Values) -> Values:
    """The values without the key, or with the suggested value where that is another one."""
    if key in values and fresh.get(key, values[key]) != values[key]:
        return values | {key: fresh[key]}
    return {k: v for k, v in values.items() if k != key}


def change_rate(values: Values, said: str, parameter_map: ParameterMap) -> Values:
    """Another learning rate, half the steps."""
    if factor := FACTOR.search(said):
        values = parameter_map.with_rate(values, float(factor[1]))
    if "halve the steps" not in said:
        return values
    if parameter_map.steps in values:
        return values | {parameter_map.steps: max(SHORTEST, int(as_number(values[parameter_map.steps]) / 2))}
    epochs = as_number(values.get(parameter_map.epochs, UNSAID))
    return values | {parameter_map.epochs: round(max(0.3, epochs / 2), 2)}


async def halve_batch(values: Values, said: str, tools: Toolbox) -> Values:
    """Half as many rows at once, as many in a step as before, activations computed again instead of kept."""
    if "halve the batch" not in said:
        return values
    size, steps, kept = [await find_parameter(words, values, tools) for words in BATCH_WORDS]
    rows = max(1, int(as_number(values.get(size, BATCH))) // 2)
    return values | {size: rows, steps: max(1, BATCH // rows), kept: not kept.startswith("disable")}


async def find_parameter(words: str, values: Values, tools: Toolbox) -> str:
    """The parameter that the words mean: a key of the config, else what the server knows by them, else the words."""
    if words in values:
        return words
    return match_name(words, values) or await search_parameter(words, tools) or words.replace(" ", "_")


async def search_parameter(words: str, tools: Toolbox) -> str | None:
    """The parameter that the words name; None where they name none, or the server may not be asked."""
    told: dict[str, Any] = await call_or_none(tools, "params_query_parameters", text=words) or {}
    return next(map(str, told.get("exact", ())), None)


CHECKS = 3
STAGE = "stage"  # of every config here; leaving it out would not mend it


async def write_config(brief: Brief, tools: Toolbox) -> TrainConfig:
    """The suggestion with the plan; after a failure the last config as the validator says; refused keys are mended."""
    asked = dict(brief.hypothesis.training_plan) if brief.hypothesis else {}
    if by_grpo(asked):
        return await write_grpo_config(brief, asked, tools)
    methods = [method for method in (FULL, LORA) if method in asked.values()] or [FULL, LORA]
    situation, parameter_map, longest = await asyncio.gather(
        read_situation(brief, tools), read_parameter_map(tools, methods=methods), longest_before(brief, tools)
    )
    plan = parameter_map.values_of(brief.hypothesis) if brief.hypothesis else {}
    if parameter_map.method not in plan:
        first = first_training(situation, parameter_map, brief.task.row_limit)
        lengths = {parameter_map.steps, parameter_map.epochs}
        plan = {k: v for k, v in first.items() if k not in lengths or not lengths & plan.keys()} | plan
    suggested = await suggest_values(situation, parameter_map, plan, longest, tools)
    fresh = constrained(brief.directives, {**suggested, **plan}, brief.kept)
    values, notes = await repair_values(brief, fresh, parameter_map, tools)
    notes += [f"{key} {asked[key]}: no amount, left out" for key in asked.keys() - plan.keys()]
    values = constrained(brief.directives, values, brief.kept)
    for _ in range(CHECKS):
        found = (await tools.call("params_check_config", yaml=as_yaml(values)))["findings"]
        refused = [f for f in found if f["level"] == "error" or "set by the run" in f["text"]]
        wrong = {f["key"]: f["text"] for f in refused if f.get("key") in values.keys() - {STAGE, parameter_map.method}}
        if not wrong:
            break
        cures = [await find_cure(key, text, tools) for key, text in wrong.items()]
        for said in cures:
            values = await apply_repairs(values, said, fresh, parameter_map, tools)
        notes += [f"{key}: {text}" for key, text in wrong.items()]
    return TrainConfig(yaml=as_yaml(values), notes="; ".join(notes) or f"{len(values)} values")


async def write_grpo_config(brief: Brief, plan: Values, tools: Toolbox) -> TrainConfig:
    """The server's GRPO recipe with the plan; after a failure without what the validator blames, with what it sets."""
    fresh = (await tools.call("params_suggest_config", stage=GRPO))["values"] | plan
    parameter_map = await read_parameter_map(tools)
    values, notes = await repair_values(brief, fresh, parameter_map, tools)
    return TrainConfig(yaml=as_yaml(values), notes="; ".join(notes) or "GRPO on the model it builds on")


async def find_cure(key: str, text: str, tools: Toolbox) -> str:
    """The cure of a finding; a key that is no parameter may be one that the server knows by other words."""
    said = repair_of_finding(key, text)
    if "is no parameter" in text and said.startswith("leave") and (meant := await search_parameter(key, tools)):
        return f"write {meant} for {key}"
    return said


async def longest_before(brief: Brief, tools: Toolbox) -> int:
    """Tokens of the longest record, by the data report of the experiment that is built on; 0: there is none."""
    parent = parent_of(brief.journal, brief.task.direction)
    report = await call_or_none(tools, "data_report", experiment=parent.number) if parent else None
    lengths = (report or {}).get("lengths") or {}
    return int(lengths.get("longest") or lengths.get("max") or 0)


def longest_record(situation: Situation, known: int) -> int:
    """The same or, where characters say more, what they come to."""
    asked = situation.facts.prompt_lengths.max
    replies = [s.profile.solution_lengths.max for s in situation.sources if s.profile.similarity > 0.3]
    room = situation.task.max_new_tokens * 3
    guess = (1.5 * asked + min(max(replies, default=room), room)) / (1.6 if situation.card.tiny else 2.5) + 24
    return max(known, int(guess))


async def suggest_values(
    situation: Situation, parameter_map: ParameterMap, plan: Values, longest: int, tools: Toolbox
) -> Values:
    """The server's first config for the plan's method, model, device and data; how long is the plan's to say."""
    rank = {"rank": int(as_number(plan[parameter_map.rank]))} if parameter_map.rank in plan else {}
    told = await tools.call(
        "params_suggest_config",
        method=str(plan[parameter_map.method]),
        longest=longest_record(situation, longest),
        typical=max(1, int(estimate_tokens(situation))),
        steps=parameter_map.steps_of(plan, situation.task.row_limit),
        batch=BATCH,
        **rank,
    )
    return {k: v for k, v in told["values"].items() if k not in (parameter_map.steps, parameter_map.epochs)}


async def repair_values(
    brief: Brief, fresh: Values, parameter_map: ParameterMap, tools: Toolbox
) -> tuple[Values, list[str]]:
    """The config of the last attempt as the validator wants it; a fresh one when no config was to blame."""
    diagnosis = brief.diagnosis
    if diagnosis is None or diagnosis.culprit != "config":
        return fresh, []
    values = await apply_repairs(last_values(brief.config) or fresh, diagnosis.repair, fresh, parameter_map, tools)
    return values, [f"repair: {diagnosis.repair}"]


def last_values(text: str) -> Values:
    """The values of a config; {} where it cannot be read as plain keys and values."""
    try:
        found: Any = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    plain = isinstance(found, dict) and all(isinstance(v, str | int | float | bool) for v in found.values())
    return {str(k): v for k, v in found.items()} if plain else {}


def as_yaml(values: Values) -> str:
    """One key a line."""
    return str(yaml.safe_dump(values, sort_keys=False, width=math.inf))
