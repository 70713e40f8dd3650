"""The validator of the offline policy: names culprit, problem and cure, in a finding's own words where there is one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tuneloop.agents.policy.config_coder import repair_of_finding
from tuneloop.agents.policy.evidence import call_or_none
from tuneloop.core.brief import Brief
from tuneloop.core.experiment import Culprit, Diagnosis
from tuneloop.core.protocols import Toolbox


@dataclass(frozen=True)
class FailurePattern:
    """A text that gives a failure away; `repair` may use the pattern's groups as {0}, {1} and the model's {positions}."""

    pattern: str
    culprit: Culprit
    repair: str

    def found(self, text: str) -> re.Match[str] | None:
        """Where the text gives it away."""
        return re.search(self.pattern, text, re.IGNORECASE | re.DOTALL)


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
ACCELERATOR = r"cuda (?:driver|error: no kernel)|nccl|no cuda-capable"
DIVERGED = (
    r"loss (?:is|became|rises|goes).{0,40}(?:nan|infinite|lower)|\bnan\b|diverg|learning.rate is too high|"
    r"lower learning.rate|loss became"
)
CUT = r"\d+ tokens.{0,60}cutoff|exactly 0.{0,60}cutoff|raise cutoff|beyond cutoff"
UNKNOWN = r"unknown (?:key|parameter) '?([a-z_]+)|keys are not used by the HfArgumentParser: \['([a-z_]+)"
TEMPLATE = r"template.{0,60}(?:does not exist|not fit|missing)|index out of range in self"
SLOW = (
    r"(?:train|smoke_run|job).{0,40}(?:time limit|timed? ?out|deadline)|forecast.{0,80}(?:left|limit|budget)|"
    r"does not fit the time|too long to train|seconds are left"
)
NO_ROWS = r"no rows? (?:is|was|are) left|(?:no|find) valid samples|empty list|train set will be empty|to no data|too few|\b0 rows"
TOO_LONG = r"rows? (?:is|are) (?:too long|longer)|are cut|over-?long|cut at cutoff"
CRASHED = r"process_data\.py|Traceback|SyntaxError|KeyError|UnicodeDecodeError|FileNotFoundError|JSONDecodeError"
FAILURES = (
    FailurePattern(r"no space left|disk (?:is )?full|quota exceeded", "environment", "free space on the disk"),
    FailurePattern(ENGINE, "environment", "build the engine again"),
    FailurePattern(ACCELERATOR, "environment", "look at the accelerator and its driver"),
    FailurePattern(MEMORY, "config", "halve the batch and switch gradient checkpointing on"),
    FailurePattern(DIVERGED, "config", "multiply the learning rate by 0.3"),
    FailurePattern(r"loss does not move|learning.rate is too small", "config", "multiply the learning rate by 5"),
    FailurePattern(CUT, "config", "set the cutoff length to {positions}"),
    FailurePattern(UNKNOWN, "config", "leave out {0}"),
    FailurePattern(TEMPLATE, "config", "leave out the template"),
    FailurePattern(r"bf16|fp16.{0,40}(?:cpu|not supported)|mixed precision", "config", "leave out bf16"),
    FailurePattern(r"batch.size should be a positive", "config", "set the train batch size to 8"),
    FailurePattern(r"use at most (\d+) steps", "config", "set the max steps to {0}"),
    FailurePattern(r"\btrain\.yaml(?::\d+)? ?: ", "config", "write one plain key and value a line"),
    FailurePattern(r"process_data\.py.{0,300}(?:time limit|timed? ?out)", "script", "read fewer records"),
    FailurePattern(MEMORY, "script", "hold fewer records in memory at once"),
    FailurePattern(SLOW, "config", "halve the steps"),
    FailurePattern(r"rows overlap with validation items", "data", "leave out the rows that hold validation items"),
    FailurePattern(NO_ROWS, "data", "leave out the strictest filter, too few rows are left"),
    FailurePattern(r"hold no answer that the scorer finds", "data", "end every output in the form the scorer reads"),
    FailurePattern(TOO_LONG, "data", "drop the longest rows: they are too long"),
    FailurePattern(r"rows, and the limit is (\d+)", "data", "write at most {0} rows"),
    FailurePattern(r"rows? are empty", "data", "drop the rows the data gate names"),
    FailurePattern(r"wrong fields|row \d+|data\.json:", "data", "write rows as the data gate wants them"),
    FailurePattern(CRASHED, "script", "handle what the error says"),
)


async def diagnose(brief: Brief, tools: Toolbox) -> Diagnosis:
    """Findings of the config check speak for themselves; else the first rule that fits, those of the blamed first."""
    text = brief.failure
    if found := list(FINDING.finditer(text)):
        return diagnose_findings(found)
    for rule in order_culprits(brief.blamed):
        if match := rule.found(text):
            return await apply_rule(rule, match, text, tools)
    culprit = blame(brief)
    problem = quote_failure(culprit, text, 0)
    return Diagnosis(culprit=culprit, problem=problem, repair="do it again without what the error names")


def diagnose_findings(found: list[re.Match[str]]) -> Diagnosis:
    """Each finding in its own words, each with its cure."""
    problem = " | ".join(match[0] for match in found)[:MOST]
    repair = "; ".join(repair_of_finding(match[1], match[2]) for match in found)
    return Diagnosis(culprit="config", problem=problem, repair=repair)


def order_culprits(blamed: str) -> Iterator[FailurePattern]:
    """Those of whom the check blames first: it knows best, but not always. The world goes before a config alone."""
    first = (blamed,) if blamed in ("script", "data") else ("environment", blamed)
    yield from (rule for culprit in first for rule in FAILURES if rule.culprit == culprit)
    yield from (rule for rule in FAILURES if rule.culprit not in first)


async def apply_rule(rule: FailurePattern, match: re.Match[str], text: str, tools: Toolbox) -> Diagnosis:
    """The rule's cure, with what the failure itself says is right."""
    groups = [g for g in match.groups() if g]
    positions = await longest_record_limit(tools) if "{positions}" in rule.repair else 0
    repair = rule.repair.format(*groups, "", "", positions=positions)
    problem = quote_failure(rule.culprit, text, match.start())
    hint = HINT.search(problem) if rule.culprit in ("script", "data") else None
    return Diagnosis(culprit=rule.culprit, problem=problem, repair=f"{repair}: {hint[1]}" if hint else repair)


async def longest_record_limit(tools: Toolbox) -> int:
    """The longest record the model can read, at most 2048."""
    card = await call_or_none(tools, "params_model_card") or {}
    return min(int(card.get("max_positions") or 1024), 2048)


def quote_failure(culprit: Culprit, text: str, at: int) -> str:
    """The line that gave it away; of a script that broke the last words of its error."""
    errors = LAST_WORDS.findall(text) if culprit == "script" else []
    begin = text.rfind("\n", 0, at) + 1
    line = errors[-1] if errors else text[begin:].partition("\n")[0]
    return (line.strip() or text.strip() or "it failed without a word")[:MOST]


def blame(brief: Brief) -> Culprit:
    """Whom the check blames; else the culprit that the failure's own words lean to."""
    named: Culprit = "config" if re.search(r"train|yaml|config", brief.failure, re.IGNORECASE) else "script"
    return next((culprit for culprit in PLACES if brief.blamed == culprit), named)
