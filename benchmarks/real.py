"""`make real`: a pretrained model through the whole loop, offline policy, on three tasks that nobody here wrote.

SmolLM2-135M from its package, tasks of reasoning-gym, 20 minutes each. The third has answers alone, 15 % of them wrong:
which of those rows were trained on is counted. One row a task goes into `benchmarks/out/real.json`. Needs about 75
minutes on two quiet cores; a run that was cut goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).resolve().parent
OUT = HERE / "out" / "real.json"
MODEL, TIME, WRONG = "smollm2", "20m", 0.15


@dataclass(frozen=True)
class Task:
    """A benchmark; `planted`: its training rows have answers alone, some of them wrong."""

    name: str
    benchmark: str
    planted: bool = False


# Named before they were run: yes or no, names, numbers.
TASKS = (
    Task("syllogism", "rg:syllogism"),
    Task("needle_haystack", "rg:needle_haystack?min_num_statements=3&max_num_statements=12"),
    Task("chain_sum", "rg:chain_sum?min_terms=2&max_terms=3&max_digits=2", planted=True),
)


def planted_rows(pool: Path, target: Path) -> set[str]:
    """Write the pool's questions and answers, 15 % of these another row's; the questions whose answer is wrong."""
    rows = [json.loads(line) for file in sorted(pool.glob("*.jsonl")) for line in file.read_text().splitlines()]
    rng = Random("wrong labels")
    wrong = set(rng.sample(range(len(rows)), round(WRONG * len(rows))))
    others = sorted({row["answer"] for row in rows})
    target.mkdir(parents=True, exist_ok=True)
    with (target / "rows.jsonl").open("w") as out:
        for number, row in enumerate(rows):
            said = rng.choice([o for o in others if o != row["answer"]]) if number in wrong else row["answer"]
            out.write(json.dumps({"question": row["question"], "answer": said}) + "\n")
    return {rows[number]["question"] for number in wrong}


def tuneloop(home: Path, *words: str) -> None:
    """A command in that home. Raises CalledProcessError."""
    env = {**os.environ, "FT_FILE_PATH": str(home)}
    subprocess.run([sys.executable, "-m", "tuneloop.cli.main", *words], env=env, check=True)


def make_pool(task: Task, home: Path) -> Path:
    """The task's training rows in the home."""
    from tuneloop.core.settings import load_settings
    from tuneloop.tools.hub.datasets import resolve_dataset

    settings = load_settings().model_copy(update={"file_path": home})
    return resolve_dataset(task.benchmark, settings.home, settings).root


def trained_labels(run: Path, experiment: int, wrong: set[str]) -> dict[str, int]:
    """Of the rows that the experiment was trained on, how many have a planted label."""
    rows = json.loads((run / "experiments" / f"{experiment:03d}" / "data" / "data.json").read_bytes())
    kept = sum(any(question in row["instruction"] for question in wrong) for row in rows)
    return {"rows": len(rows), "wrong_rows": kept}


def measured(task: Task, home: Path) -> dict[str, Any]:
    """One task's row."""
    run = home / "runs" / task.name
    dataset: Sequence[str] = ()
    wrong = set[str]()
    if task.planted:
        folder = home / "planted" / task.name
        wrong = planted_rows(make_pool(task, home), folder)
        dataset = ("--dataset", str(folder))
    if not (run / "report.json").is_file():
        begin = (
            "run",
            "--benchmark",
            task.benchmark,
            *dataset,
            "--base-model",
            MODEL,
            "--timeout",
            TIME,
            "--run-id",
            task.name,
        )
        tuneloop(home, *(("resume", task.name) if (run / "run.yaml").is_file() else begin))
    report = json.loads((run / "report.json").read_bytes())
    best, claim = report["best"], report["claim"]
    row = {
        "task": task.benchmark,
        "base": report["baseline"]["test"]["value"],
        "best": best["test"]["value"] if best["test"] else None,
        "gain": [claim[name] for name in ("gain", "low", "high")] if claim else None,
        "claimed": bool(best["claimed"]),
        "experiments": len(report["experiments"]),
        "seconds": round(report["budget"]["seconds"]),
    }
    if task.planted and best.get("experiment"):
        row |= trained_labels(run, best["experiment"], wrong)
    return row


def main() -> int:
    """All tasks; exit status 1 where no gain was claimed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[task.name for task in TASKS], help="these tasks alone")
    parser.add_argument("--home", type=Path, default=HERE / "out" / "real-home", help="where runs are made")
    parser.add_argument("--out", type=Path, default=OUT, help=f"rows as JSON (default: {OUT})")
    given = parser.parse_args()
    found = []
    for task in TASKS:
        if not given.only or task.name in given.only:
            found.append(measured(task, given.home.absolute()))
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(json.dumps(found, indent=1))
            sys.stdout.write(json.dumps(found[-1]) + "\n")
    return int(not all(row["claimed"] for row in found))


if __name__ == "__main__":
    sys.exit(main())
