"""OpenCompass's own inference and evaluation of one model on one set, in this process, and the check of what they left.

The tasks are driven as its command line drives them with `--debug`, without what that does around them (configuration
dump, partitioner, runner, summary): that costs more than a small evaluation.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from mmengine.config import ConfigDict
from oc_config import COLUMN, GOLD, asked_config, dataset_config
from oc_models import HIDE, PROGRESS
from opencompass.tasks import OpenICLEvalTask, OpenICLInferTask


class NotMeasuredError(Exception):
    """OpenCompass left something other than one verdict for each item."""


def read_set(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def run_tasks(
    job: dict[str, Any], model: dict[str, Any], given: dict[str, Any], built: Any, work: Path
) -> dict[str, Any]:
    """The verified result of the loaded model `built` on the set `given`. Raises NotMeasuredError."""
    items, name = given["rows"], given["name"]
    file = work / "items" / f"{name}.jsonl"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = [{COLUMN: item["prompt"].translate(HIDE), GOLD: item["answer"]} for item in items]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = ConfigDict(
        models=[asked_config(model, len(items))],
        datasets=[[dataset_config(job, given, file)]],
        work_dir=str(work),
        eval={"runner": {"task": {"dump_details": True}}},
    )
    truncated, generating = PROGRESS.truncated, PROGRESS.generating
    OpenICLInferTask(config).run(cur_model=built, cur_model_abbr=model["name"])
    OpenICLEvalTask(config).run()
    found = verified(model["name"], name, items, work)
    spent = {"truncated": PROGRESS.truncated - truncated, "seconds": PROGRESS.generating - generating}
    return {"model": model["name"], "set": name, **spent, **found}


def verified(model: str, name: str, items: list[dict[str, Any]], work: Path) -> dict[str, Any]:
    """OpenCompass's files, item by item against what was asked. Raises NotMeasuredError naming the first difference."""
    predictions = json.loads((work / "predictions" / model / f"{name}.json").read_text())
    result = json.loads((work / "results" / model / f"{name}.json").read_text())
    who = f"{model} on {name}"
    if "error" in result or not math.isfinite(result.get("accuracy", math.nan)):
        raise NotMeasuredError(f"{who}: no finite accuracy but {result.get('error', result.get('accuracy'))}")
    if sorted(predictions, key=int) != [str(i) for i in range(len(items))] or len(result["details"]) != len(items):
        raise NotMeasuredError(
            f"{who}: {len(predictions)} predictions, {len(result['details'])} verdicts, {len(items)} items"
        )
    rows = [row(item, predictions[str(i)], result["details"][i]) for i, item in enumerate(items)]
    accuracy = 100 * sum(r["correct"] for r in rows) / len(rows)
    if abs(accuracy - result["accuracy"]) > 1e-6:
        raise NotMeasuredError(f"{who}: accuracy {result['accuracy']} but its details give {accuracy}")
    return {"accuracy": accuracy, "items": rows}


def row(item: dict[str, Any], prediction: dict[str, Any], detail: dict[str, Any]) -> dict[str, Any]:
    """One item's result. Raises NotMeasuredError when the verdict belongs to another item or prompt."""
    asked = prediction["origin_prompt"]
    asked = asked if isinstance(asked, str) else "".join(turn["prompt"] for turn in asked)
    if asked != item["prompt"].translate(HIDE):
        raise NotMeasuredError(f"item {item['id']}: another prompt was asked: {asked[:200]!r}")
    if not prediction["gold"] == detail["answer"][0] == item["answer"] or not isinstance(prediction["prediction"], str):
        raise NotMeasuredError(f"item {item['id']}: gold answer {prediction['gold']!r}, right is {item['answer']!r}")
    verdict = {"parsed": detail["parsed"][0], "answer": item["answer"], "correct": bool(detail["correct"][0])}
    return {"id": item["id"], "prediction": prediction["prediction"], **verdict}
