"""What is wrong with one value by itself: its type, its choice, its range."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tuneloop.tools.params.catalog import Catalog, Parameter
from tuneloop.tools.params.finding import options, shown
from tuneloop.tools.params.packages import REPORTERS
from tuneloop.tools.params.ranges import ANY, RANGES
from tuneloop.tools.params.situation import LISTS

KIND_NAMES = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "list": "a list",
    "dict": "a mapping",
    "none": "null",
}
LEVELS = ("debug", "info", "warning", "error", "critical", "detail", "passive")
# Texts that the engine takes for keys whose type is any text.
WORDS: Mapping[str, tuple[str, ...]] = {
    "report_to": ("none", "all", *REPORTERS),
    "log_level": LEVELS,
    "log_level_replica": LEVELS,
    "fp8_backend": ("auto", "torchao", "te", "msamp"),
    "train_sampling_strategy": ("random", "sequential", "group_by_length"),
    "include_num_input_tokens_seen": ("all", "non_padding", "no"),
    "torch_compile_mode": ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
    "ddp_backend": ("nccl", "gloo", "mpi", "xccl", "ccl", "hccl", "cncl", "mccl"),
    "fsdp": (
        *("full_shard", "shard_grad_op", "no_shard", "hybrid_shard", "hybrid_shard_zero2", "offload", "auto_wrap"),
    ),
    "debug": ("underflow_overflow", "tpu_metrics_debug"),
}
# Kinds beyond the declared type that the engine takes all the same.
ALSO: Mapping[str, frozenset[str]] = {
    "resume_from_checkpoint": frozenset({"bool"}),
    "fsdp": frozenset({"bool"}),
    "run_name": frozenset({"int", "float"}),
    **dict.fromkeys(LISTS, frozenset({"list"})),
}
SCALES = {"k": 1_000, "m": 1_000_000, "%": 0.01}


def complaint(parameter: Parameter, value: Any, catalog: Catalog) -> str | None:
    """What is wrong with a value, and what would be right; None when nothing is."""
    if isinstance(value, str) and (wrong := _unresolved(value)):
        return wrong
    if parameter.name in ("template", "tool_format") and isinstance(value, str):
        known = catalog.templates if parameter.name == "template" else tool_formats(catalog.factory)
        return (
            None
            if value in known
            else f"{shown(value)} is no {_word(parameter)} of this release; {_near(value, known)}"
        )
    if wrong := _type(parameter, value) or _word_of(parameter.name, value) or _commas(value):
        return wrong
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return RANGES.get(parameter.name, ANY).complaint(value)


def _unresolved(value: str) -> str | None:
    if "${" in value:
        return f"{shown(value)} is not filled in: the engine keeps ${{…}} as text; write the value itself"
    return "??? stands for a missing value; write the value" if value == "???" else None


def _commas(value: Any) -> str | None:
    """What is wrong with a list whose parts are lists again."""
    if isinstance(value, list) and (part := next((p for p in value if isinstance(p, str) and "," in p), None)):
        return f"{shown(part)} is one name with a comma in a list; write a part for each"
    return None


def _word(parameter: Parameter) -> str:
    return parameter.name.replace("_", " ")


def _near(value: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(value.lower(), list(known), n=1)
    return f"did you mean {near[0]}?" if near else "leave it out"


@lru_cache(maxsize=8)
def tool_formats(factory: Path) -> frozenset[str]:
    """The names under which the release writes calls of tools."""
    path = factory / "data/tool_utils.py"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return frozenset(re.findall(r'^    "(\w+)": \w+\(\),?$', text, re.MULTILINE))


def _word_of(name: str, value: Any) -> str | None:
    """What is wrong with texts that are names of something, alone or in a list."""
    known = WORDS.get(name)
    if known is None or isinstance(value, bool):
        return None
    if name == "report_to" and value is None:
        return 'null is taken for a service\'s name; write "none"'
    parts = value if isinstance(value, list) else value.split() if name in ("fsdp", "debug") and value else [value]
    empty = (None,) if name == "report_to" else (None, "")
    wrong = next((part for part in parts if part not in empty and part not in known), None)
    if wrong is None:
        return None
    return f"{shown(wrong)} is not among {options(known)}{_meant(wrong, known)}"


def _type(parameter: Parameter, value: Any) -> str | None:
    kinds, choices = parameter.kinds | ALSO.get(parameter.name, frozenset()), parameter.choices
    if _fits(value, kinds) or any(value == c and type(value) is type(c) for c in choices):
        return None
    if choices and not kinds - {"none"}:
        if isinstance(value, bool) and "no" in choices:
            return f'{shown(value)} is what YAML makes of no; write "no" in quotes, or one of {options(choices)}'
        return f"{shown(value)} is not among {options(choices)}{_meant(value, choices)}"
    right = " or ".join(KIND_NAMES[k] for k in sorted(kinds - {"none"}) if k in KIND_NAMES) or "null"
    return f"{shown(value)} is {_kind_name(value)}; right is {right}{_example(parameter, value)}"


def _meant(value: Any, choices: Iterable[Any]) -> str:
    if not isinstance(value, str):
        return ""
    plain = value.lower().replace("-", "_")
    near = difflib.get_close_matches(plain, [c for c in choices if isinstance(c, str)], n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""


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
        number = _number(value)
        if number is None:
            return ""
        whole = "float" not in parameter.kinds
        return (
            f", {round(number) if whole else f'{number:g}'} without quotes" if _plain(value) else f", e.g. {number:g}"
        )
    if "int" in parameter.kinds and isinstance(value, float) and math.isfinite(value):
        return f", e.g. {max(1, round(value))}"
    if "bool" in parameter.kinds and isinstance(value, str) and value.lower() in ("true", "false"):
        return f", {value.lower()} without quotes"
    return ""


def _plain(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(text: str) -> float | None:
    """The number that a text begins with, its unit counted: `10k`, `5%`, `1e-4,`."""
    found = re.match(r"\s*([-+]?[\d_]*\.?\d+(?:[eE][-+]?\d+)?)\s*([kKmM%]?)", text)
    if not found:
        return None
    try:
        number = float(found[1].replace("_", "")) * SCALES.get(found[2].lower(), 1)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
