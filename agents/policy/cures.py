"""Cures of a config in words: what a finding asks for, as the validator says it, and what the config coder makes of it."""

from __future__ import annotations

import re
from typing import Any

from tuneloop.agents.policy.evidence import call
from tuneloop.agents.policy.knobs import Knobs, Values, meant, number
from tuneloop.agents.policy.situation import BATCH
from tuneloop.core.experiment import Value
from tuneloop.core.files import parse_json
from tuneloop.core.toolbox import Toolbox

NEAR = re.compile(r"did you mean '?(\w+)'?\?")
OTHER = re.compile(r"\bwrite (\w+): ([^\s,;]+)")
NUMBER = re.compile(r"\b(?:write|right is|must be|more than the model's \D{0,40}?) ?(-?\d[\d.e-]*)\b")
RENAME = re.compile(r"\bwrite (\w+) for (\w+)")
SET = re.compile(r"\bset (?:the )?([\w ]+?) to ([^\s,;]+)")
LEAVE = re.compile(r"\b(?:leave out|remove|drop) (?:the )?(\w+)")
FACTOR = re.compile(r"learning rate by ([\d.]*\d)")
BATCH_SIZE, ACCUMULATION, CHECKPOINTING = (
    "train batch size",
    "gradient accumulation steps",
    "disable gradient checkpointing",
)
SHORTEST = 20


def cure(key: str, text: str) -> str:
    """What a finding of the config check asks for: `write A for B`, `set A to …` or `leave out A`."""
    if near := NEAR.search(text):
        return f"write {near[1]} for {key}"
    asked = [f"set {other} to {value}" for other, value in OTHER.findall(text)]
    value = NUMBER.search(text)
    if asked or value is None:
        return "; ".join((f"leave out {key}", *asked))
    return f"set {key} to {value[1].rstrip('.')}"


async def carried_out(values: Values, said: str, fresh: Values, knobs: Knobs, tools: Toolbox) -> Values:
    """The values after the cures in `said`; what is left out gets the suggested value of `fresh` where it differs."""
    names = {old: new for new, old in RENAME.findall(said)}
    changed = {names.get(key, key): value for key, value in values.items()}
    for words in LEAVE.findall(said):
        changed = without(changed, words if "_" in words else await named(words, changed, tools), fresh)
    for words, text in SET.findall(said):
        changed[await named(words, changed, tools)] = literal(text.rstrip("."))
    return turned(await halved(changed, said, tools), said, knobs)


def without(values: Values, key: str, fresh: Values) -> Values:
    """The values without the key, or with the suggested value where that is another one."""
    if key in values and fresh.get(key, values[key]) != values[key]:
        return values | {key: fresh[key]}
    return {k: v for k, v in values.items() if k != key}


def turned(values: Values, said: str, knobs: Knobs) -> Values:
    """Another learning rate, half the steps."""
    if factor := FACTOR.search(said):
        values = knobs.with_rate(values, float(factor[1]))
    if "halve the steps" not in said:
        return values
    half = {key: number(values[key]) / 2 for key in (knobs.steps, knobs.epochs) if key in values}
    return values | {k: max(SHORTEST, int(v)) if k == knobs.steps else round(max(0.3, v), 2) for k, v in half.items()}


async def halved(values: Values, said: str, tools: Toolbox) -> Values:
    """Half as many rows at once, as many in a step as before, activations computed again instead of kept."""
    if "halve the batch" not in said:
        return values
    size, steps, kept = [await named(words, values, tools) for words in (BATCH_SIZE, ACCUMULATION, CHECKPOINTING)]
    rows = max(1, int(number(values.get(size, BATCH))) // 2)
    return values | {size: rows, steps: max(1, BATCH // rows), kept: not kept.startswith("disable")}


async def named(words: str, values: Values, tools: Toolbox) -> str:
    """The parameter that the words mean: a key of the config, else what the server knows by them, else the words."""
    if words in values:
        return words
    return meant(words, values) or await looked_up(words, tools) or words.replace(" ", "_")


async def looked_up(words: str, tools: Toolbox) -> str | None:
    """The parameter that the words name; None where they name none, or the server may not be asked."""
    told: dict[str, Any] = await call(tools, "params_query_parameters", text=words) or {}
    return next(map(str, told.get("exact", ())), None)


def literal(text: str) -> Value:
    """A value as YAML would read it."""
    try:
        value: Any = parse_json(text)
    except ValueError:
        return text.strip("'\"")
    return value if isinstance(value, str | int | float | bool) else text
