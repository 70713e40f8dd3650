"""The validator of the offline policy: names culprit, problem and cure, in a finding's own words where there is one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tuneloop.agents.policy.cures import cure
from tuneloop.agents.policy.evidence import call
from tuneloop.core.brief import Brief
from tuneloop.core.experiment import Culprit, Diagnosis
from tuneloop.core.toolbox import Toolbox


@dataclass(frozen=True)
class Rule:
    """A text that gives a failure away; `repair` may use the pattern's groups as {0}, {1} and the model's {positions}."""

    pattern: str
    culprit: Culprit
    repair: str


FINDING = re.compile(r"\btrain\.yaml(?::\d+)? (\w+): (.+)")
LAST_WORDS = re.compile(r"^\w*(?:Error|Exception|Exit|Interrupt)\b.*$", re.MULTILINE)
PLACES: tuple[Culprit, ...] = ("script", "data", "config")
MOST = 500
HINT = re.compile(r"; ([^;]+)$")
MEMORY = (
    r"out of memory|OutOfMemory|can't allocate memory|DefaultCPUAllocator|\bSIGKILL\b|exit status -9|by memory|"
    r"memory estimate|bytes? .*(?:available|free) memory"
)
ENGINE = r"no module named '?(?:torch|transformers|llamafactory|peft|trl)|operator torchvision|libc10|GLIBC"
DIVERGED = (
    r"loss (?:is|became|rises|goes).{0,40}(?:nan|infinite|lower)|\bnan\b|diverg|learning.rate is too high|"
    r"lower learning.rate|loss became"
)
CUT = r"\d+ tokens.{0,60}cutoff|exactly 0.{0,60}cutoff|raise cutoff|beyond cutoff"
UNKNOWN = r"unknown (?:key|parameter) '?([a-z_]+)|keys are not used by the HfArgumentParser: \['([a-z_]+)"
TEMPLATE = r"template.{0,60}(?:does not exist|not fit|missing)|index out of range in self"
SLOW = (
    r"(?:training|train|job).{0,40}(?:time limit|timed? ?out|deadline)|forecast.{0,80}(?:left|limit|budget)|"
    r"does not fit the time"
)
NO_ROWS = r"no row is left|empty list|cannot find valid samples|corresponds to no data|too few|\b0 rows"
TOO_LONG = r"rows? (?:is|are) (?:too long|longer)|are cut|over-?long|cut at cutoff"
CRASHED = r"process_data\.py|Traceback|SyntaxError|KeyError|UnicodeDecodeError|FileNotFoundError|JSONDecodeError"
RULES = (
    Rule(r"no space left|disk (?:is )?full|quota exceeded", "environment", "free space on the disk"),
    Rule(ENGINE, "environment", "build the engine again"),
    Rule(
        r"cuda (?:driver|error: no kernel)|nccl|no cuda-capable",
        "environment",
        "look at the accelerator and its driver",
    ),
    Rule(MEMORY, "config", "halve the batch and switch gradient checkpointing on"),
    Rule(DIVERGED, "config", "multiply the learning rate by 0.3"),
    Rule(r"loss does not move|learning.rate is too small", "config", "multiply the learning rate by 5"),
    Rule(CUT, "config", "set the cutoff length to {positions}"),
    Rule(UNKNOWN, "config", "leave out {0}"),
    Rule(TEMPLATE, "config", "leave out the template"),
    Rule(r"bf16|fp16.{0,40}(?:cpu|not supported)|mixed precision", "config", "leave out bf16"),
    Rule(r"batch.size should be a positive", "config", "set the train batch size to 8"),
    Rule(r"use at most (\d+) steps", "config", "set the max steps to {0}"),
    Rule(r"\btrain\.yaml(?::\d+)? ?: ", "config", "write one plain key and value a line"),
    Rule(r"process_data\.py.{0,300}(?:time limit|timed? ?out)", "script", "read fewer records"),
    Rule(MEMORY, "script", "hold fewer records in memory at once"),
    Rule(SLOW, "config", "halve the steps"),
    Rule(r"rows overlap with validation items", "data", "leave out the rows that hold validation items"),
    Rule(NO_ROWS, "data", "leave out the strictest filter, too few rows are left"),
    Rule(r"hold no answer that the scorer finds", "data", "end every output in the form the scorer reads"),
    Rule(TOO_LONG, "data", "drop the longest rows: they are too long"),
    Rule(r"rows, and the limit is (\d+)", "data", "write at most {0} rows"),
    Rule(r"rows? are empty", "data", "drop the rows the data gate names"),
    Rule(r"wrong fields|row \d+|data\.json:", "data", "write rows as the data gate wants them"),
    Rule(CRASHED, "script", "handle what the error says"),
)


async def diagnose(brief: Brief, tools: Toolbox) -> Diagnosis:
    """Findings of the config check speak for themselves; else the first rule that fits, those of the blamed first."""
    text = brief.failure
    if found := list(FINDING.finditer(text)):
        return of_findings(found)
    for rule in ordered(brief.blamed):
        match = re.search(rule.pattern, text, re.IGNORECASE | re.DOTALL)
        if match:
            return await of_rule(rule, match, text, tools)
    culprit = blamed(brief)
    return Diagnosis(
        culprit=culprit, problem=own_words(culprit, text, 0), repair="do it again without what the error names"
    )


def of_findings(found: list[re.Match[str]]) -> Diagnosis:
    """Each finding in its own words, each with its cure."""
    problem = " | ".join(match[0] for match in found)
    return Diagnosis(
        culprit="config", problem=problem[:MOST], repair="; ".join(cure(match[1], match[2]) for match in found)
    )


def ordered(blamed: str) -> Iterator[Rule]:
    """Those of whom the rung blames first: it knows best, but not always. The world goes before a config alone."""
    first = (blamed,) if blamed in ("script", "data") else ("environment", blamed)
    yield from (rule for culprit in first for rule in RULES if rule.culprit == culprit)
    yield from (rule for rule in RULES if rule.culprit not in first)


async def of_rule(rule: Rule, match: re.Match[str], text: str, tools: Toolbox) -> Diagnosis:
    """The rule's cure, with what the failure itself says is right."""
    groups = [g for g in match.groups() if g]
    positions = await longest(tools) if "{positions}" in rule.repair else 0
    repair = rule.repair.format(*groups, "", "", positions=positions)
    problem = own_words(rule.culprit, text, match.start())
    hint = HINT.search(problem) if rule.culprit in ("script", "data") else None
    return Diagnosis(culprit=rule.culprit, problem=problem, repair=f"{repair}: {hint[1]}" if hint else repair)


async def longest(tools: Toolbox) -> int:
    """The longest record the model can read, at most 2048."""
    card = await call(tools, "params_model_card") or {}
    return min(int(card.get("max_positions") or 1024), 2048)


def own_words(culprit: Culprit, text: str, at: int) -> str:
    """The line that gave it away; of a script that broke the last words of its error."""
    errors = LAST_WORDS.findall(text) if culprit == "script" else []
    begin = text.rfind("\n", 0, at) + 1
    line = errors[-1] if errors else text[begin:].partition("\n")[0]
    return (line.strip() or text.strip() or "it failed without a word")[:MOST]


def blamed(brief: Brief) -> Culprit:
    """Whom the rung blames; else the culprit that the failure's own words lean to."""
    for culprit in PLACES:
        if brief.blamed == culprit:
            return culprit
    return "config" if re.search(r"train|yaml|config", brief.failure, re.IGNORECASE) else "script"
