"""OpenCompass's own inference and evaluation of one model on one set, in this process, and the check of what they left.

The tasks are driven as its command line drives them with `--debug`, without what that does around them (configuration
dump, partitioner, runner, summary): that costs more than a small evaluation.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import oc_evaluator  # noqa: F401 - OpenCompass finds it by its name
from mmengine.config import ConfigDict
from oc_config import COLUMN, GOLD, asked_config, dataset_config
from oc_models import HIDE, PROGRESS
from oc_shares import SHARES
from opencompass.tasks import OpenICLEvalTask, OpenICLInferTask


class NotMeasuredError(Exception):
    """OpenCompass left something other than one verdict for each item."""


def read_set(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSON Lines file, which end with a line feed alone: U+2028, U+2029 and U+0085 may stand in a row."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def write_items(given: dict[str, Any], folder: Path) -> Path:
    """The items of a set as OpenCompass reads them, written once."""
    file = folder / f"{given['name']}.jsonl"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        rows = [{COLUMN: item["prompt"].translate(HIDE), GOLD: item["answer"]} for item in given["rows"]]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def run_tasks(
    job: dict[str, Any], model: dict[str, Any], given: dict[str, Any], built: Any, work: Path
) -> dict[str, Any]:
    """The verified result of the loaded model `built` on the set `given`; {} in a process that only answers its share.

    Raises NotMeasuredError.
    """
    items, name = given["rows"], given["name"]
    file = write_items(given, work / "items")
    config = ConfigDict(
        models=[asked_config(model, len(items))],
        datasets=[[dataset_config(job, given, file)]],
        work_dir=str(work),
        eval={"runner": {"task": {"dump_details": True}}},
    )
    truncated, generating = PROGRESS.truncated, PROGRESS.generating
    built.asked = given  # form, stop and sampling are the set's own
    OpenICLInferTask(config).run(cur_model=built, cur_model_abbr=model["name"])
    if SHARES.rank:
        return {}
    if given["executed"]:  # its answers are run elsewhere, and what is right is not here
        found = {"items": answered(model["name"], name, items, work)}
    else:
        OpenICLEvalTask(config).run()
        found = verified(model["name"], name, items, work)
    spent = {"truncated": PROGRESS.truncated - truncated, "seconds": PROGRESS.generating - generating}
    return {"model": model["name"], "set": name, **spent, **found}


def verified(model: str, name: str, items: list[dict[str, Any]], work: Path) -> dict[str, Any]:
    """OpenCompass's files, item by item against what was asked. Raises NotMeasuredError naming the first difference."""
    predictions = answers(model, name, items, work)
    result = json.loads((work / "results" / model / f"{name}.json").read_text())
    who = f"{model} on {name}"
    if "error" in result or not math.isfinite(result.get("accuracy", math.nan)):
        raise NotMeasuredError(f"{who}: no finite accuracy but {result.get('error', result.get('accuracy'))}")
    if len(result["details"]) != len(items):
        raise NotMeasuredError(f"{who}: {len(result['details'])} verdicts, {len(items)} items")
    rows = [row(*found) for found in zip(items, predictions, result["details"], strict=True)]
    accuracy = 100 * sum(r["value"] for r in rows) / len(rows)
    if abs(accuracy - result["accuracy"]) > 1e-6:
        raise NotMeasuredError(f"{who}: accuracy {result['accuracy']} but its details give {accuracy}")
    return {"accuracy": accuracy, "metrics": result["metrics"][0], "items": rows}


def answered(model: str, name: str, items: list[dict[str, Any]], work: Path) -> list[dict[str, Any]]:
    """Answers without verdicts. Raises NotMeasuredError."""
    found = zip(items, answers(model, name, items, work), strict=True)
    return [{"id": item["id"], "prediction": check_asked(item, prediction)["prediction"]} for item, prediction in found]


def answers(model: str, name: str, items: list[dict[str, Any]], work: Path) -> list[dict[str, Any]]:
    """OpenCompass's predictions in the items' order, one each. Raises NotMeasuredError."""
    found = json.loads((work / "predictions" / model / f"{name}.json").read_text())
    if sorted(found, key=int) != [str(i) for i in range(len(items))]:
        raise NotMeasuredError(f"{model} on {name}: {len(found)} predictions, {len(items)} items")
    return [found[str(i)] for i in range(len(items))]


def check_asked(item: dict[str, Any], prediction: dict[str, Any]) -> dict[str, Any]:
    """The prediction. Raises NotMeasuredError when it belongs to another prompt, or is no text."""
    asked = prediction["origin_prompt"]
    asked = asked if isinstance(asked, str) else "".join(turn["prompt"] for turn in asked)
    if asked != item["prompt"].translate(HIDE):
        raise NotMeasuredError(f"item {item['id']}: another prompt was asked: {asked[:200]!r}")
    if not isinstance(prediction["prediction"], str):
        raise NotMeasuredError(f"item {item['id']}: the answer is no text")
    return prediction


def row(item: dict[str, Any], prediction: dict[str, Any], detail: dict[str, Any]) -> dict[str, Any]:
    """One item's result. Raises NotMeasuredError when the verdict belongs to another item or prompt."""
    check_asked(item, prediction)
    if not prediction["gold"] == detail["answer"][0] == item["answer"]:
        raise NotMeasuredError(f"item {item['id']}: gold answer {prediction['gold']!r}, right is {item['answer']!r}")
    return {"id": item["id"], "prediction": prediction["prediction"], "answer": item["answer"], **detail["verdict"][0]}
