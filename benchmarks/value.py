"""How far a run of the embedded default comes between a naive recipe and an oracle; `python benchmarks/value.py RUN [RUN …]`.

Naive: all raw rows joined to Alpaca as they are, values of LLaMA-Factory's public LoRA example. Oracle: every defect
removed by the hidden key, values tuned by hand. Both are trained and measured on the sealed test by the same engines,
with the seed of the run they are compared with. Prints one JSON line a run.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import yaml

from tuneloop.core.files import digest, read_json, write_atomic, write_json
from tuneloop.core.layout import ExperimentFolder, RunFolder
from tuneloop.core.run_spec import Setup
from tuneloop.core.settings import Settings, load_settings
from tuneloop.tools.config.finalize import write_dataset_info
from tuneloop.tools.embedded.messy import RawRow, rows_with_key
from tuneloop.tools.embedded.problems import SUFFIX
from tuneloop.tools.embedded.words import equation_solution
from tuneloop.tools.evaluation.item_sets import EvaluationConditions, ModelWeights, evaluation_command, make_item_set
from tuneloop.tools.evaluation.run_evaluation import trained_weights
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.runs.signature import write_setup
from tuneloop.tools.scoring.verdicts import make_score, read_rows
from tuneloop.tools.training.launch import start_training
from tuneloop.tools.training.result import training_result

NAIVE = """\
finetuning_type: lora
lora_rank: 8
lora_target: all
cutoff_len: 512
max_samples: 1000
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
learning_rate: 1.0e-4
num_train_epochs: 3.0
lr_scheduler_type: cosine
warmup_ratio: 0.1
template: chatml
"""
ORACLE = """\
finetuning_type: full
cutoff_len: 320
per_device_train_batch_size: 16
learning_rate: 1.0e-3
max_steps: 800
lr_scheduler_type: cosine
warmup_steps: 30
weight_decay: 0.0
template: chatml
disable_gradient_checkpointing: true
"""
QUESTION = {"textbook": "problem", "quiz": "q"}


def joined(raw: RawRow) -> dict[str, str]:
    """A row as someone in a hurry would join it."""
    f = raw.fields
    if raw.source == "distilled":
        asked, said = f["conversation"][0]["value"], f["conversation"][1]["value"]
    elif raw.source == "chat":
        asked, said = f["input"]["text"], f["output"]["text"]
    elif raw.source == "textbook":
        asked, said = f["problem"], f["worked_solution"]
    else:
        asked, said = f["q"], f["a"]
    return {"instruction": asked, "input": "", "output": str(said)}


def naive_rows() -> list[dict[str, str]]:
    """Everything."""
    return [joined(raw) for raw in rows_with_key()]


def oracle_rows() -> list[dict[str, str]]:
    """Rows without any defect, in the benchmark's own form: the true steps as bare equations, the box."""
    good = [r for r in rows_with_key() if r.key.steps and not (r.key.wrong or r.key.leaked or r.key.duplicate)]
    rows = {joined(r)["instruction"]: r for r in good}
    return [
        {
            "instruction": asked + SUFFIX,
            "input": "",
            "output": f"{equation_solution(r.key.steps)}\n\\boxed{{{r.key.answer}}}",
        }
        for asked, r in rows.items()
    ]


def trial(run_tools: RunTools, number: int, rows: list[dict[str, str]], config: str) -> float:
    """Train on `rows`, measure on the sealed test; percent."""
    folder = run_tools.run.experiment(number)
    write_json(folder.data / "data.json", rows)
    write_json(folder.data / "report.json", {"rows": len(rows), "source": digest(json.dumps(rows))})
    write_dataset_info(folder.data)
    write_atomic(folder.config, config)
    if not folder.training.is_file():
        start_training(run_tools, folder)
        finished(lambda: run_tools.status(folder.jobs, "train")[0].state)
        status, job = run_tools.status(folder.jobs, "train")
        assert job is not None
        write_json(folder.training, training_result(run_tools, folder, status, job).model_dump(mode="json"))
    return test_score(run_tools, folder, replace(trained_weights(run_tools, number), name="model"))


def test_score(run_tools: RunTools, folder: ExperimentFolder, model: ModelWeights) -> float:
    """Percent of the sealed test."""
    out = folder.root / "test"
    asked = make_item_set(run_tools.benchmark, "test")
    command = evaluation_command(
        run_tools.engine("opencompass"), [model], [asked], out, EvaluationConditions(seed=run_tools.spec.seed)
    )
    run_tools.launch(folder.jobs, "test", command)
    finished(lambda: run_tools.status(folder.jobs, "test")[0].state)
    pair = ("model", asked.name)
    return make_score(read_rows(out, {pair})[pair], asked).value


def finished(state: Callable[[], str]) -> None:
    """Wait for a job."""
    while state() == "running":
        time.sleep(0.5)


def beside(run: RunFolder) -> RunFolder:
    """A run folder with the same spec and setup, for trials."""
    twin = RunFolder(run.root.with_name(f"{run.id}-value"))
    write_atomic(twin.spec, yaml.safe_dump(yaml.safe_load(run.spec.read_text())))
    write_setup(twin, Setup.model_validate(read_json(run.setup)))
    return twin


def compared(run: RunFolder, settings: Settings) -> dict[str, Any]:
    """Sealed test scores of base, naive recipe, the run's best and oracle; `way`: how far from naive to oracle it came."""
    report = read_json(run.report_json)
    run_tools = RunTools(beside(run), settings)
    naive, oracle = trial(run_tools, 1, naive_rows(), NAIVE), trial(run_tools, 2, oracle_rows(), ORACLE)
    base, best = report["baseline"]["test"]["value"], report["best"]
    ours = best["test"]["value"] if best["delivered"] else base
    line = {"run": run.id, "seed": run_tools.spec.seed, "base": base, "naive": naive, "ours": ours, "oracle": oracle}
    first = report["experiments"][0]["validation"]
    way = round((ours - naive) / (oracle - naive), 3)
    return {**line, "way": way, "first_validation": first and first["value"]}


def main() -> None:
    """One line a run."""
    settings = load_settings()
    for name in sys.argv[1:]:
        print(json.dumps(compared(settings.home.run(name), settings)), flush=True)


if __name__ == "__main__":
    main()
