"""Measure what tuneloop costs; `make bench` writes `benchmarks/out/results.json` and prints it.

Every row is {"name", "value", "unit", "goal", "ok"}. Ratios are against the stock tool in the same call. A run of one
experiment on the embedded default is made first, with engines and models of FT_FILE_PATH.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tuneloop.core.event_log import read_events
from tuneloop.core.events import NodeFinished
from tuneloop.core.files import write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings, load_settings
from tuneloop.tools import models
from tuneloop.tools.engines import Engine, ensure_engine
from tuneloop.tools.params.check import check_config
from tuneloop.tools.params.installed import installed_catalog
from tuneloop.tools.params.model_card import read_model_card

OUT = Path(__file__).parent / "out" / "results.json"
BAD = "finetuning_type: lora\nlearning_rat: 0.001\ncutoff_len: 256\n"
COMMAND = (sys.executable, "-m", "tuneloop.cli.main")


def row(name: str, value: float, unit: str, goal: float) -> dict[str, object]:
    """Smaller is better for every figure."""
    return {"name": name, "value": round(value, 4), "unit": unit, "goal": goal, "ok": value <= goal}


def cpu(argv: Sequence[str]) -> float:
    """CPU seconds of one command, its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, check=False, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def seconds(work: Callable[[], object], times: int) -> float:
    """Wall seconds of one call, the mean of several."""
    began = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - began) / times


def start_up() -> list[dict[str, object]]:
    """What `--help` costs."""
    return [row("tuneloop --help", min(cpu([*COMMAND, "--help"]) for _ in range(3)), "CPU s", 0.3)]


def refusal(engine: Engine, settings: Settings) -> list[dict[str, object]]:
    """A misspelt key: ours against the stock engine's refusal."""
    catalog = installed_catalog(engine)
    card = read_model_card(models.resolve("tiny", settings, lambda *_: None).root)
    ours = seconds(lambda: check_config(BAD, catalog, card, "cpu"), 50)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "train.yaml"
        config.write_text(BAD + f"model_name_or_path: {card.folder}\nstage: sft\ndo_train: true\n")
        script = Path(__file__).parents[1] / "engines" / "llamafactory" / "train.py"
        began = time.perf_counter()
        subprocess.run([str(engine.python), str(script), "train", str(config)], check=False, capture_output=True)
        stock = time.perf_counter() - began
    return [row("refusal of a misspelt key, ours / stock", ours / stock, "ratio", 0.01)]


def orchestration(run: RunFolder) -> list[dict[str, object]]:
    """CPU seconds and checkpoint bytes of one experiment, jobs not counted."""
    events, _ = read_events(run.events)
    inside = [e.cpu for e in events if isinstance(e, NodeFinished) and e.node not in ("prepare", "finish")]
    return [
        row("orchestration of an experiment", sum(inside), "CPU s", 2.0),
        row("checkpoint of an experiment", run.checkpoint.stat().st_size / 1024, "KB", 200.0),
    ]


def main() -> None:
    """All rows."""
    settings = load_settings()
    run = settings.home.run(f"bench-{time.time_ns()}")
    made = ("--benchmark", "wordproblems", "--base-model", "tiny", "--loop-n", "1", "--run-id", run.id)
    subprocess.run([*COMMAND, "run", *made], check=True)
    engine = ensure_engine("llamafactory", settings)
    rows = [*start_up(), *refusal(engine, settings), *orchestration(run)]
    write_json(OUT, rows)
    for r in rows:
        print(json.dumps(r))


if __name__ == "__main__":
    main()
