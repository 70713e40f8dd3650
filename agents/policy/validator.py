"""The validator of the offline policy: reads a failure's text and names culprit, problem and repair."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tuneloop.agents.policy.evidence import call
from tuneloop.core.brief import Brief
from tuneloop.core.experiment import Culprit, Diagnosis
from tuneloop.core.toolbox import Toolbox


@dataclass(frozen=True)
class Rule:
    """A text that gives a failure away; `repair` may use the pattern's groups as {0}, {1}."""

    pattern: str
    culprit: Culprit
    repair: str


MEMORY = (
    r"out of memory|OutOfMemory|can't allocate memory|DefaultCPUAllocator|\bSIGKILL\b|exit status -9|by memory|"
    r"memory estimate|bytes? .*(?:available|free) memory"
)
ENGINE = r"no module named '?(?:torch|transformers|llamafactory|peft|trl)|operator torchvision|libc10|GLIBC"
DIVERGED = (
    r"loss (?:is|became|rises|goes).{0,40}(?:nan|infinite|lower)|\bnan\b|diverg|learning_rate is too high|"
    r"lower learning_rate|loss became"
)
CUT = r"(\d+) tokens.{0,60}cutoff|exactly 0.{0,60}cutoff_len|raise cutoff_len|beyond cutoff"
UNKNOWN = r"unknown (?:key|parameter) '?([a-z_]+)|keys are not used by the HfArgumentParser: \['([a-z_]+)"
TEMPLATE = r"template.{0,60}(?:does not exist|not fit|missing)|index out of range in self"
SLOW = (
    r"(?:training|train|job).{0,40}(?:time limit|timed? ?out|deadline)|forecast.{0,80}(?:left|limit|budget)|"
    r"does not fit the time"
)
NO_ROWS = r"no row is left|empty list|cannot find valid samples|corresponds to no data|too few|0 rows"
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
    Rule(r"loss does not move|learning_rate is too small", "config", "multiply the learning rate by 5"),
    Rule(r"cutoff_len.{0,80}?(?:position|max)\D{0,40}(\d{2,6})", "config", "set cutoff_len to {0}"),
    Rule(CUT, "config", "set cutoff_len to 1024"),
    Rule(UNKNOWN, "config", "leave out {0}"),
    Rule(r"train\.yaml:\d+ ([a-z_]+): .*?(?:right is|must be) (-?[\d.e-]*\d)\b", "config", "set {0} to {1}"),
    Rule(r"train\.yaml:?\d* ?([a-z_]+): ", "config", "leave out {0}"),
    Rule(TEMPLATE, "config", "leave out template"),
    Rule(r"bf16|fp16.{0,40}(?:cpu|not supported)|mixed precision", "config", "set bf16 to false"),
    Rule(r"batch_size should be a positive", "config", "set per_device_train_batch_size to 8"),
    Rule(r"process_data\.py.{0,300}(?:time limit|timed? ?out)", "script", "read fewer records"),
    Rule(SLOW, "config", "halve the steps"),
    Rule(NO_ROWS, "data", "leave out the strictest filter, too few rows are left"),
    Rule(r"hold no answer that the scorer finds", "data", "end every output in the form the scorer reads"),
    Rule(TOO_LONG, "data", "drop the longest rows: they are too long"),
    Rule(r"rows, and the limit is (\d+)", "data", "write at most {0} rows"),
    Rule(r"rows? are empty|wrong fields|data\.json:", "data", "drop the rows the data gate names"),
    Rule(CRASHED, "script", "handle what the last line of the error says"),
)


async def diagnose(brief: Brief, tools: Toolbox) -> Diagnosis:
    """The first rule that fits; the model's limits are asked where a rule needs them."""
    text = brief.failure
    for rule in RULES:
        match = re.search(rule.pattern, text, re.IGNORECASE | re.DOTALL)
        if match:
            groups = [g for g in match.groups() if g]
            repair = rule.repair.format(*groups, "", "")
            if repair == "set cutoff_len to 1024":
                repair = f"set cutoff_len to {await positions(tools)}"
            return Diagnosis(culprit=rule.culprit, problem=sentence(text, match.start()), repair=repair)
    return Diagnosis(
        culprit=named(text), problem=sentence(text, 0), repair="do it again without what the last line of the log names"
    )


async def positions(tools: Toolbox) -> int:
    """The longest record the model can read, at most 2048."""
    card = await call(tools, "params_model_card") or {}
    return min(int(card.get("max_positions") or 1024), 2048)


def sentence(text: str, at: int) -> str:
    """The line of the failure that gave it away."""
    begin = text.rfind("\n", 0, at) + 1
    line = text[begin:].partition("\n")[0].strip()
    return (line or text.strip() or "it failed without a word")[:300]


def named(text: str) -> Culprit:
    """The culprit that the failure's own words lean to."""
    return "config" if re.search(r"train|yaml|config", text, re.IGNORECASE) else "script"
