"""The config coder of the offline policy: the parameter server's suggestion with the training plan, checked by it."""

from __future__ import annotations

import json
import re
from typing import Any

from tuneloop.agents.policy.evidence import call, parent_of
from tuneloop.agents.policy.situation import BATCH, Situation, read_situation
from tuneloop.agents.policy.training import Values, first_training, guessed_tokens, steps_of, with_rate
from tuneloop.core.brief import Brief
from tuneloop.core.experiment import TrainConfig
from tuneloop.core.toolbox import Toolbox

SET = re.compile(r"\bset ([a-z_]+) to ([^\s,;]+)")
LEAVE = re.compile(r"\b(?:leave out|remove|drop) ([a-z_]+)")
NOT_OURS = ("stage", "finetuning_type")
LENGTH = ("max_steps", "num_train_epochs")


async def write_config(brief: Brief, tools: Toolbox) -> TrainConfig:
    """The config; keys that the server finds wrong are left out, after a failure what the validator said is done."""
    situation = await read_situation(brief, tools)
    plan = dict(brief.hypothesis.training_plan) if brief.hypothesis else {}
    plan = {**first_training(situation, brief.task.row_limit), **plan} if "finetuning_type" not in plan else plan
    values = {**await suggested(situation, plan, tools), **plan}
    values, notes = repaired(values, brief)
    for _ in range(3):
        found = (await tools.call("params_check_config", yaml=as_yaml(values)))["findings"]
        refused = [f for f in found if f["level"] == "error" or "set by the run" in f["text"]]
        wrong = [f for f in refused if f.get("key") in values and f["key"] not in NOT_OURS]
        if not wrong:
            break
        meant = {f["key"]: await named(f["key"], tools) for f in wrong if "is no parameter" in f["text"]}
        values = {
            **{k: v for k, v in values.items() if k not in {f["key"] for f in wrong}},
            **{name: values[key] for key, name in meant.items() if name and name not in values},
        }
        notes += [f"left out {f['key']}: {f['text']}" for f in wrong]
    return TrainConfig(yaml=as_yaml(values), notes="; ".join(notes) or f"{len(values)} values")


async def longest_record(situation: Situation, tools: Toolbox) -> int:
    """Tokens of the longest record: from the newest data report, else guessed from characters."""
    parent = parent_of(situation.brief.journal, situation.task.direction)
    report = await call(tools, "data_report", experiment=parent.number) if parent else None
    lengths = (report or {}).get("lengths") or {}
    known = int(lengths.get("longest") or lengths.get("max") or 0)
    asked = situation.facts.prompt_lengths.max
    replies = [s.profile.solution_lengths.max for s in situation.sources if s.profile.similarity > 0.3]
    room = situation.task.max_new_tokens * 3
    guess = (1.5 * asked + min(max(replies, default=room), room)) / (1.6 if situation.card.tiny else 2.5) + 24
    return max(known, int(guess))


async def suggested(situation: Situation, plan: Values, tools: Toolbox) -> Values:
    """The server's first config for the plan's method, model, device and data; how long is the plan's to say."""
    told = await tools.call(
        "params_suggest_config",
        method=str(plan.get("finetuning_type")),
        longest=await longest_record(situation, tools),
        typical=max(1, int(guessed_tokens(situation))),
        steps=steps_of(plan, situation.task.row_limit),
        batch=BATCH,
        rank=int(float(str(plan.get("lora_rank", 16)))),
    )
    values: Values = told["values"]
    return {key: value for key, value in values.items() if key not in LENGTH}


async def named(key: str, tools: Toolbox) -> str | None:
    """The parameter that a misspelt key means, where the server is sure."""
    told = await call(tools, "params_query_parameters", text=key) or {}
    return str(told["names"][0]) if told.get("kind") == "describe" and told.get("names") else None


def repaired(values: Values, brief: Brief) -> tuple[Values, list[str]]:
    """The values after the validator's `set X to Y`, `leave out X`, and what the failure itself asks for."""
    diagnosis = brief.diagnosis
    if diagnosis is None or diagnosis.culprit != "config":
        return values, []
    said = diagnosis.repair
    changed = {key: value for key, value in values.items() if key not in LEAVE.findall(said)}
    for key, text in SET.findall(said):
        changed[key] = literal(text.rstrip("."))
    if "learning rate by" in said:
        factor = float(re.findall(r"learning rate by ([\d.]+\d)", said)[0])
        changed = with_rate(changed, factor ** max(1, brief.attempt))
    if "halve the batch" in said:
        size = max(1, BATCH // 2 ** max(1, brief.attempt)) if brief.attempt else BATCH // 2
        now = int(float(str(changed.get("per_device_train_batch_size", BATCH))))
        size = max(1, min(now // 2, size))
        changed |= {"per_device_train_batch_size": size, "gradient_accumulation_steps": max(1, BATCH // size)}
        changed["disable_gradient_checkpointing"] = False
    if "halve the steps" in said:
        for key in ("max_steps", "num_train_epochs"):
            if key in changed:
                half = float(str(changed[key])) / 2 ** max(1, brief.attempt)
                changed[key] = max(20, int(half)) if key == "max_steps" else round(max(0.3, half), 2)
    return changed, [f"repair: {said}"]


def literal(text: str) -> str | int | float | bool:
    """A value as YAML would read it."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        return text.strip("'\"")
    return value if isinstance(value, str | int | float | bool) else text


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
