"""OpenCompass's own dataset configurations by name, and one reply judged as such a configuration judges it."""

from __future__ import annotations

import copy
import inspect
from functools import lru_cache
from pathlib import Path
from typing import Any

import opencompass
from mmengine.config import Config
from opencompass.registry import ICL_EVALUATORS, TEXT_POSTPROCESSORS

CONFIGS = Path(opencompass.__file__).parent / "configs" / "datasets"
METRICS = ("accuracy", "score", "acc", "humaneval_pass@1", "em", "exact_match")
GIVEN = {"predictions", "references", "test_set"}


@lru_cache(maxsize=8)
def dataset_configs(name: str) -> dict[str, dict[str, Any]]:
    """The datasets of a configuration, `module` or `folder.module`, by their abbreviations. Raises LookupError."""
    found = sorted(CONFIGS.glob(f"{name.replace('.', '/')}.py")) or sorted(CONFIGS.glob(f"*/{name}.py"))
    if len(found) != 1:
        raise LookupError(f"{len(found)} configurations are called {name}")
    loaded = Config.fromfile(str(found[0]), format_python_code=False)
    given = [one for key, value in loaded.items() if key.endswith("_datasets") for one in value]
    return {one["abbr"]: one for one in given}


def unfit(config: dict[str, Any]) -> str:
    """Why a dataset cannot be measured item by item; "" when it can."""
    inferencer, evaluator = str(config["infer_cfg"]["inferencer"]["type"]), config["eval_cfg"]["evaluator"]["type"]
    if "GenInferencer" not in inferencer:
        return f"it is answered by {inferencer.rpartition('.')[2].strip(chr(39) + '>')}, not by generation"
    kind = ICL_EVALUATORS.get(evaluator) if isinstance(evaluator, str) else evaluator
    wanted = {
        name
        for name, one in inspect.signature(kind.score).parameters.items()
        if name != "self" and one.default is inspect.Parameter.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    }
    if kind.__module__.startswith("opencompass.datasets.bigcodebench"):
        return "BigCodeBench reads replies with tree_sitter_languages, which has no wheels beyond Python 3.12"
    if wanted - GIVEN:
        return f"its evaluator wants {', '.join(sorted(wanted - GIVEN))}"
    if {"judge_cfg", "llm_evaluator"} & set(config["eval_cfg"]["evaluator"]):
        return "its evaluator asks a judge"
    return ""


def processed(text: Any, config: dict[str, Any] | None) -> Any:
    """A text behind a configured postprocessor."""
    if not config:
        return text
    how = dict(copy.deepcopy(config))
    function = how.pop("type")
    return (TEXT_POSTPROCESSORS.get(function) if isinstance(function, str) else function)(text, **how)


def verdict(name: str, abbr: str, reference: Any, reply: str) -> tuple[str, float]:
    """What the configuration reads in a reply, and its share of the metric. Raises LookupError where that is no share."""
    how = dataset_configs(name)[abbr]["eval_cfg"]
    read = processed(reply, how.get("pred_postprocessor"))
    found = ICL_EVALUATORS.build(copy.deepcopy(how["evaluator"])).score(predictions=[read], references=[reference])
    details = found.get("details")
    first = next(iter(details.values() if isinstance(details, dict) else details), {}) if details else {}
    if isinstance(first, dict) and isinstance(first.get("correct"), bool):
        return str(read), float(first["correct"])
    metric = next(metric for metric in METRICS if isinstance(found.get(metric), int | float))
    return str(read), float(found[metric]) / 100
