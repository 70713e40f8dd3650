"""The same measurement from OpenCompass's own command line: `python stock.py JOB.json FOLDER`, then the command it prints.

JOB.json is `measure.py`'s, as every evaluation leaves it. FOLDER gets the items and `config.py`, which names our evaluator and our
models; the verdicts are `details` in `FOLDER/out/*/results/<model>-<set>/<set>.json`. Benchmarks whose replies are run as code
get predictions only.
"""

from __future__ import annotations

import json
import pprint
import sys
from pathlib import Path
from typing import Any

from oc_config import dataset_config, model_config
from oc_tasks import read_set, write_items

PARTS = {"partitioner": {"type": "NaivePartitioner", "n": 1}}
TASKS = {"infer": "OpenICLInferTask", "eval": "OpenICLEvalTask"}


def main(job_file: Path, folder: Path) -> None:
    """Write items and configuration, print the command."""
    folder = folder.absolute()
    config = stock_config(json.loads(job_file.read_text()), folder)
    lines = [f"{name} = {pprint.pformat(value, width=120, sort_dicts=False)}\n" for name, value in config.items()]
    (folder / "config.py").write_text("".join(lines))
    print(f"cd {folder} && PYTHONPATH={Path(__file__).parent} opencompass {folder / 'config.py'} --debug")


def stock_config(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """OpenCompass's configuration of a job: each model with each of its sets, under a name of its own."""
    sets = {given["name"]: {**given, "rows": read_set(Path(given["items"]))} for given in job["sets"]}
    pairs = [(model, sets[name]) for model in job["models"] for name in model["sets"]]
    asked = [{"models": [stock_model(job, *pair)], "datasets": [stock_set(job, pair[1], folder)]} for pair in pairs]
    return {
        "custom_imports": {"imports": ["oc_models", "oc_evaluator"], "allow_failed_imports": False},
        "models": [one for pair in asked for one in pair["models"]],
        "datasets": list({one["abbr"]: one for pair in asked for one in pair["datasets"]}.values()),
        "model_dataset_combinations": asked,
        "work_dir": str(folder / "out"),
        **{name: {**PARTS, "runner": {"type": "LocalRunner", "task": {"type": task}}} for name, task in TASKS.items()},
    }


def stock_model(job: dict[str, Any], model: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """A model that knows how one set is asked, and gets all of it at once."""
    how = {name: given[name] for name in ("name", "form", "stop", "temperature", "top_p")}
    rows = [{"id": row["id"]} for row in given["rows"]]
    config = model_config(job, {**model, "again": False, "rank": 0})
    asked = {"asked": {**how, "rows": rows}, "batch_size": len(rows), "run_cfg": {"num_gpus": 0}}
    return {**config, **asked, "abbr": f"{model['name']}-{given['name']}"}


def stock_set(job: dict[str, Any], given: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A set whose items lie in the folder."""
    return dataset_config(job, given, write_items(given, folder / "items"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
