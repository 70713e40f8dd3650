"""Answer and score items with OpenCompass, inside its environment: `python measure.py JOB.json`.

JOB.json: models [{name, path, adapter, tokenizer}], items (JSON Lines with id, prompt, answer), answer_kind, scoring
(path of the scorer), max_new_tokens, batch_size, seed, device (cpu | cuda), out. Prints progress as JSON lines.
`out/results.json` is written last; without it nothing was measured. Exit status is 0 only with it.
"""

from __future__ import annotations

import gc
import json
import math
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import opencompass
import torch
from oc_config import COLUMN, DATASET, GOLD, config_text
from oc_models import HIDE, PROGRESS
from opencompass.cli.main import main as run_opencompass
from transformers import PreTrainedTokenizerBase

if not hasattr(PreTrainedTokenizerBase, "batch_encode_plus"):  # gone in transformers 5, still called by OpenCompass
    PreTrainedTokenizerBase.batch_encode_plus = lambda self, batch, **kwargs: self(batch, **kwargs)


class NotMeasuredError(Exception):
    """OpenCompass left something other than one verdict for each item."""


def main(job_file: Path) -> None:
    """Measure every model of the job, then write the results."""
    job = json.loads(job_file.read_text())
    out = Path(job["out"])
    (out / "results.json").unlink(missing_ok=True)
    shutil.rmtree(out / "opencompass", ignore_errors=True)
    # similar lengths share a batch; the order of results is restored by id
    items = sorted(read_lines(Path(job["items"])), key=lambda item: (len(item["prompt"]), item["id"]))
    PROGRESS.total = len(items) * len(job["models"])
    PROGRESS.add(0)
    results = [measure(job, model, items, out / "opencompass" / str(i)) for i, model in enumerate(job["models"])]
    versions = {"opencompass": opencompass.__version__, "torch": torch.__version__}
    write_json(out / "results.json", {"models": results, "versions": versions})


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def measure(job: dict[str, Any], model: dict[str, Any], items: list[dict[str, Any]], cwd: Path) -> dict[str, Any]:
    """One model's answers and verdicts. OpenCompass litters its working directory, so each model has its own."""
    cwd.mkdir(parents=True)
    os.chdir(cwd)
    torch.manual_seed(job["seed"])
    rows = [{COLUMN: item["prompt"].translate(HIDE), GOLD: item["answer"]} for item in items]
    (cwd / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (cwd / "config.py").write_text(config_text(job, model, cwd / "items.jsonl", cwd / "out"))
    truncated = PROGRESS.truncated
    sys.argv = ["opencompass", str(cwd / "config.py"), "-w", str(cwd / "out"), "--debug"]
    run_opencompass()
    found = verified(model["name"], items, cwd / "out")
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return {"name": model["name"], "truncated": PROGRESS.truncated - truncated, **found}


def verified(name: str, items: list[dict[str, Any]], work: Path) -> dict[str, Any]:
    """OpenCompass's files, item by item against what was asked. Raises NotMeasuredError naming the first difference."""
    experiments = [folder for folder in work.iterdir() if folder.is_dir()]
    if len(experiments) != 1:
        raise NotMeasuredError(f"{name}: {len(experiments)} experiment folders, right is 1")
    predictions = json.loads((experiments[0] / "predictions" / name / f"{DATASET}.json").read_text())
    result = json.loads((experiments[0] / "results" / name / f"{DATASET}.json").read_text())
    if "error" in result or not math.isfinite(result.get("accuracy", math.nan)):
        raise NotMeasuredError(f"{name}: no finite accuracy but {result.get('error', result.get('accuracy'))}")
    if sorted(predictions, key=int) != [str(i) for i in range(len(items))] or len(result["details"]) != len(items):
        raise NotMeasuredError(
            f"{name}: {len(predictions)} predictions, {len(result['details'])} verdicts, {len(items)} items"
        )
    rows = [row(item, predictions[str(i)], result["details"][i]) for i, item in enumerate(items)]
    accuracy = 100 * sum(r["correct"] for r in rows) / len(rows)
    if abs(accuracy - result["accuracy"]) > 1e-6:
        raise NotMeasuredError(f"{name}: accuracy {result['accuracy']} but its details give {accuracy}")
    return {"accuracy": accuracy, "items": sorted(rows, key=lambda r: r["id"])}


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


def write_json(path: Path, value: Any) -> None:
    """All or nothing."""
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8") as f:
        json.dump(value, f, allow_nan=False)
        f.flush()
        os.fsync(f.fileno())
    part.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
