"""Answer and score items with OpenCompass, inside its environment: `python measure.py JOB.json`.

JOB.json: models [{name, path, adapter, tokenizer, sets, keys}] or [{name, replies, sets, keys}], sets [{name, items,
answer_kind, scorer, files, form, stop, temperature, top_p, max_new_tokens, template_options}] (`items`: JSON Lines with
id, prompt, answer; `scorer`: a file, or "" for a plain kind; `files`: the folder with what it needs, or ""), scoring and
judging (files),
batch_size, longest (tokens, or null), seed, device (cpu | cuda), backend (hf | vllm), gpus (at most so many; without: all), out.
A model is measured on the sets that it names; a base model is loaded once for itself and its adapters.
Prints progress as JSON lines. What is measured of a set stays in `out/parts` under its key: after a kill it is not measured
again. `out/results.json` is written last; without it nothing was measured. Exit status is 0 only with it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import opencompass
import torch
from oc_config import model_config
from oc_evaluator import loaded
from oc_models import PROGRESS
from oc_shares import SHARES, write_json
from oc_tasks import read_set, run_tasks
from oc_weights import HELD
from opencompass.utils import build_model_from_cfg


def main(job_file: Path) -> None:
    """Measure every model of the job on its sets, by one process for each GPU."""
    job = json.loads(job_file.read_text())
    out = Path(job["out"])
    (out / "results.json").unlink(missing_ok=True)
    shutil.rmtree(out / "opencompass", ignore_errors=True)
    SHARES.start(job)
    torch.set_num_threads(int(os.environ.get("TUNELOOP_JOB_THREADS", torch.get_num_threads())))
    try:
        measure_all(job, out, out / "opencompass" / str(SHARES.rank))
    finally:
        SHARES.end()


def measure_all(job: dict[str, Any], out: Path, work: Path) -> None:
    """One process's part of it; the first writes the results."""
    versions = {"opencompass": opencompass.__version__, "torch": torch.__version__}
    if job["backend"] == "vllm":
        # imported only when asked for: it takes the GPU, and most environments do not have it
        versions["vllm"] = importlib.import_module("oc_vllm").VERSION
    gc.freeze()  # what the imports left never becomes garbage; looking through it takes most of a second
    sets = {given["name"]: {**given, "rows": read_set(Path(given["items"]))} for given in job["sets"]}
    for given in job["sets"]:  # a scorer that lacks something says so before a model is asked
        loaded(job["judging"]).judge_of(job["scoring"], given["answer_kind"], given["scorer"], given["files"])
    PROGRESS.expect(sum(len(sets[name]["rows"]) for model in job["models"] for name in model["sets"]))
    results = [row for model in turns(job["models"]) for row in measure(job, model, sets, work)]
    if SHARES.rank:
        return
    order = [model["name"] for model in job["models"]]
    results.sort(key=lambda row: order.index(row["model"]))
    # beside the results, which are the same bytes whenever they are made
    spent = [{name: row[name] for name in ("model", "set")} | {"seconds": row.pop("seconds")} for row in results]
    write_json(out / "generation.json", spent)
    write_json(out / "results.json", {"results": results, "versions": versions})


def turns(models: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The models in the order of their turns: those of one base follow each other, and it is told when the last has it."""
    bases = list(dict.fromkeys(model["path"] for model in models))
    ordered = sorted(models, key=lambda model: bases.index(model["path"]))
    after = [model["path"] for model in ordered[1:]] + [None]
    rank = adapter_rank(ordered)
    return [{**model, "again": model["path"] == then, "rank": rank} for model, then in zip(ordered, after, strict=True)]


def adapter_rank(models: list[dict[str, Any]]) -> int:
    """The largest rank among the models' adapters, 0 without any."""
    configs = [Path(model["adapter"]) / "adapter_config.json" for model in models if model["adapter"]]
    given = [json.loads(path.read_text()) for path in configs if path.is_file()]
    return max((max([c.get("r") or 0, *(c.get("rank_pattern") or {}).values()]) for c in given), default=0)


def measure(job: dict[str, Any], model: dict[str, Any], sets: dict[str, Any], work: Path) -> list[dict[str, Any]]:
    """One model's answers and verdicts, a row for each of its sets."""
    began, parts = time.monotonic(), {name: Part(job, model, name) for name in model["sets"]}
    results = {name: row for name, part in parts.items() if (row := part.read()) is not None}
    PROGRESS.add(sum(len(row["items"]) for row in results.values()))
    if missing := [name for name in parts if name not in results]:
        torch.manual_seed(job["seed"])
        built = build_model_from_cfg(model_config(job, model))
        for name in missing:
            if (row := parts[name].read()) is not None:  # another set of this content was answered meanwhile
                results[name] = row
                continue
            SHARES.begin(parts[name].file)
            results[name] = run_tasks(job, model, sets[name], built, work)
            parts[name].write(results[name])
        del built
        HELD.put_back()
    print(json.dumps({"model": model["name"], "seconds": round(time.monotonic() - began, 3)}), flush=True)
    return [results[name] for name in parts]


class Part:
    """What was measured of one model on one set, under the key of everything that decides it."""

    def __init__(self, job: dict[str, Any], model: dict[str, Any], name: str) -> None:
        self.key = model["keys"][name]
        self.file = Path(job["out"]) / "parts" / f"{self.key}.json"
        self.names = {"model": model["name"], "set": name}

    def read(self) -> dict[str, Any] | None:
        """The row, None where it is not there yet."""
        try:
            found: dict[str, Any] = json.loads(self.file.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return {**found, **self.names}

    def write(self, row: dict[str, Any]) -> None:
        """Keep it: the first process alone has all answers."""
        if not SHARES.rank:
            write_json(self.file, row)
            SHARES.drop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
