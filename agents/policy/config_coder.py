"""The config coder of the offline policy: the parameter server's suggestion with the training plan, checked by it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import yaml

from tuneloop.agents.policy.cures import carried_out, cure, looked_up
from tuneloop.agents.policy.evidence import call, parent_of
from tuneloop.agents.policy.knobs import Knobs, Values, read_knobs
from tuneloop.agents.policy.situation import BATCH, Situation, read_situation
from tuneloop.agents.policy.training import first_training, guessed_tokens
from tuneloop.core.brief import Brief
from tuneloop.core.constraints import constrained
from tuneloop.core.experiment import TrainConfig
from tuneloop.core.toolbox import Toolbox

CHECKS = 3
STAGE = "stage"  # of every config here; leaving it out would not mend it


async def write_config(brief: Brief, tools: Toolbox) -> TrainConfig:
    """The suggestion with the plan; after a failure the last config as the validator says; refused keys are mended."""
    situation, knobs, longest = await asyncio.gather(
        read_situation(brief, tools), read_knobs(tools), longest_before(brief, tools)
    )
    plan = dict(brief.hypothesis.training_plan) if brief.hypothesis else {}
    plan = plan if knobs.method in plan else first_training(situation, knobs, brief.task.row_limit) | plan
    fresh = constrained(
        brief.directives, {**await suggested(situation, knobs, plan, longest, tools), **plan}, brief.kept
    )
    values, notes = await repaired(brief, fresh, knobs, tools)
    values = constrained(brief.directives, values, brief.kept)
    for _ in range(CHECKS):
        found = (await tools.call("params_check_config", yaml=as_yaml(values)))["findings"]
        refused = [f for f in found if f["level"] == "error" or "set by the run" in f["text"]]
        wrong = {f["key"]: f["text"] for f in refused if f.get("key") in values.keys() - {STAGE, knobs.method}}
        if not wrong:
            break
        cures = {key: await asked_for(key, text, tools) for key, text in wrong.items()}
        for said in cures.values():
            values = await carried_out(values, said, fresh, knobs, tools)
        notes += [f"{key}: {text}" for key, text in wrong.items()]
    return TrainConfig(yaml=as_yaml(values), notes="; ".join(notes) or f"{len(values)} values")


async def asked_for(key: str, text: str, tools: Toolbox) -> str:
    """The cure of a finding; a key that is no parameter may be one that the server knows by other words."""
    said = cure(key, text)
    if "is no parameter" in text and said.startswith("leave") and (meant := await looked_up(key, tools)):
        return f"write {meant} for {key}"
    return said


async def longest_before(brief: Brief, tools: Toolbox) -> int:
    """Tokens of the longest record, by the data report of the experiment that is built on; 0: there is none."""
    parent = parent_of(brief.journal, brief.task.direction)
    report = await call(tools, "data_report", experiment=parent.number) if parent else None
    lengths = (report or {}).get("lengths") or {}
    return int(lengths.get("longest") or lengths.get("max") or 0)


def longest_record(situation: Situation, known: int) -> int:
    """The same or, where characters say more, what they come to."""
    asked = situation.facts.prompt_lengths.max
    replies = [s.profile.solution_lengths.max for s in situation.sources if s.profile.similarity > 0.3]
    room = situation.task.max_new_tokens * 3
    guess = (1.5 * asked + min(max(replies, default=room), room)) / (1.6 if situation.card.tiny else 2.5) + 24
    return max(known, int(guess))


async def suggested(situation: Situation, knobs: Knobs, plan: Values, longest: int, tools: Toolbox) -> Values:
    """The server's first config for the plan's method, model, device and data; how long is the plan's to say."""
    rank = {"rank": int(float(str(plan[knobs.rank])))} if knobs.rank in plan else {}
    told = await tools.call(
        "params_suggest_config",
        method=str(plan[knobs.method]),
        longest=longest_record(situation, longest),
        typical=max(1, int(guessed_tokens(situation))),
        steps=knobs.steps_of(plan, situation.task.row_limit),
        batch=BATCH,
        **rank,
    )
    values: Values = told["values"]
    return {key: value for key, value in values.items() if key not in (knobs.steps, knobs.epochs)}


async def repaired(brief: Brief, fresh: Values, knobs: Knobs, tools: Toolbox) -> tuple[Values, list[str]]:
    """The config of the last attempt as the validator wants it; a fresh one when no config was to blame."""
    diagnosis = brief.diagnosis
    if diagnosis is None or diagnosis.culprit != "config":
        return fresh, []
    values = await carried_out(last(brief.config) or fresh, diagnosis.repair, fresh, knobs, tools)
    return values, [f"repair: {diagnosis.repair}"]


def last(text: str) -> Values:
    """The values of a config; {} where it cannot be read as plain keys and values."""
    try:
        found: Any = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    plain = isinstance(found, dict) and all(isinstance(v, str | int | float | bool) for v in found.values())
    return {str(k): v for k, v in found.items()} if plain else {}


def as_yaml(values: Values) -> str:
    """One key a line; texts in quotes, so that `no` stays a text; small numbers so that YAML reads a number."""
    lines = (f"{key}: {written(value)}" for key, value in values.items())
    return "\n".join(lines) + "\n"


def written(value: str | int | float | bool) -> str:
    """A YAML scalar."""
    if isinstance(value, float):
        mantissa, _, exponent = f"{value:g}".partition("e")
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}" if exponent else mantissa
    return json.dumps(value)
