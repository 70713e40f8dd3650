"""What simulated jobs leave: the files by which the orchestrator knows a real job's results."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

from tuneloop.core.files import write_atomic, write_json
from tuneloop.core.job import Command
from tuneloop.tools.scoring import scorer_loader

STEPS, LOGGED, CLOCKS = 500, 50, (0.1, 0.12)  # CPU and wall seconds of a smoke run's step
BASE, SPREAD = 30.0, 30.0  # percent right of the base model, and what experiments may gain


def leave_results(folder: Path, command: Command, seed: int) -> None:
    """Into the folder that a job may write."""
    out, name, number = Path(command.write[0]), folder.name.partition(".")[0], folder.parent.parent.name
    rng = random.Random(f"{seed} {number} {name} results")
    if name == "evaluate":
        leave_answers(out, json.loads(Path(command.argv[2]).read_text()), rng)
    else:
        leave_model(out, Path(command.read[-1]), f"{number} {name}")
        leave_logs(out, rng)
        if name == "smoke_run":
            write_json(out / "cost.json", smoke_run_cost(Path(command.read[-2]), Path(command.argv[3]).read_text()))


def leave_model(out: Path, base: Path, name: str) -> None:
    """The base model's files with weights of nothing."""
    for file in base.glob("*.json"):
        shutil.copyfile(file, out / file.name)
    header = json.dumps({"__metadata__": {"of": name}}).encode()
    (out / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)


def leave_logs(out: Path, rng: random.Random) -> None:
    """State, curve and sign of life of a training that is done."""
    steps = range(STEPS // LOGGED, STEPS + 1, STEPS // LOGGED)
    losses = {step: 2.0 / (1 + 0.02 * step) + rng.uniform(0, 0.05) for step in steps}
    history = [{"step": step, "loss": loss, "grad_norm": 1.0} for step, loss in losses.items()]
    write_json(out / "trainer_state.json", {"global_step": STEPS, "max_steps": STEPS, "log_history": history})
    logged = [{"current_steps": step, "total_steps": STEPS, "loss": loss} for step, loss in losses.items()]
    watched = [{**row, "of": STEPS, "learning_rate": 1e-4, "moved": 0.001} for row in history]
    for name, rows in (("trainer_log.jsonl", logged), ("watch.jsonl", watched)):
        write_atomic(out / name, "".join(json.dumps(row) + "\n" for row in rows))
    write_json(out / "pulse.json", {"step": STEPS, "of": STEPS, "at": 1.0, "began": 0.0, "step_seconds": 40.0})


def smoke_run_cost(data: Path, config: str) -> dict[str, Any]:
    """What the engine's shim counts."""
    rows = len(json.loads((data / "data.json").read_text()))
    steps = next(int(line.split(":")[1]) for line in config.splitlines() if line.startswith("max_steps:"))
    costs = {name: list(CLOCKS) for name in ("dataset", "between", "save", "whole")}
    taken = [[1600, *CLOCKS] for _ in range(steps)]
    return {**costs, "steps": taken, "lengths": [100] * rows, "memory": 1 << 29, "device_memory": None}


def leave_answers(out: Path, job: dict[str, Any], rng: random.Random) -> None:
    """Answers of a model that is as good as it was drawn; verdicts by the scorer itself."""
    results = []
    for model in job["models"]:
        right = BASE + (model["name"] != "base") * SPREAD * rng.betavariate(2, 5)
        for one in job["sets"]:
            judge, rows = scorer_loader.judge_of(job["scoring"], one["answer_kind"], one["scorer"]), []
            for line in Path(one["items"]).read_text().splitlines():
                item = json.loads(line)
                text = f"\\boxed{{{item['answer']}}}" if rng.random() * 100 < right else "no idea"
                verdict = scorer_loader.judged(judge, item["answer"], text)
                rows.append({"id": item["id"], "prediction": text, "answer": item["answer"], **verdict})
            accuracy = 100 * sum(row["value"] for row in rows) / len(rows)
            facts = {"model": model["name"], "set": one["name"], "truncated": 0, "accuracy": accuracy}
            results.append({**facts, "metrics": scorer_loader.summary(one["scorer"], rows), "items": rows})
    write_json(out / "results.json", {"results": results, "versions": {}})
