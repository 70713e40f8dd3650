"""What a training proves, read from the engine's own files: its curve, and whether it is whole."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Cost, EarlyStop, Forecast, Training
from tuneloop.core.files import read_json, read_model
from tuneloop.core.job import JobStatus
from tuneloop.core.layout import ExperimentFolder
from tuneloop.core.untrusted import is_plain_number, numeric_fields, read_bytes, read_numeric_rows
from tuneloop.tools.config.config_text import engine_config
from tuneloop.tools.config.finalize import trained_rows
from tuneloop.tools.jobs.run_tools import RunTools

STATE = "trainer_state.json"
WEIGHTS = ("model*.safetensors", "adapter_model.safetensors")


def log_points(out: Path, name: str = "trainer_log.jsonl", key: str = "current_steps") -> list[dict[str, Any]]:
    """Rows of a log of the engine, a step that was logged twice (after a resume) once, in order."""
    points: dict[int, dict[str, Any]] = {}
    try:
        rows = list(read_numeric_rows(out / name))
    except (FileNotFoundError, ValueError):
        return []
    for row in rows:
        if type(row.get(key)) is int:
            points.setdefault(row[key], {}).update(row)
    return [points[step] for step in sorted(points)]


def training_result(run_tools: RunTools, folder: ExperimentFolder, status: JobStatus, job: Path) -> Training:
    """Proof that a training is whole: every step done, finite losses, weights there. Raises RecipeError otherwise."""
    if status.exit is None or not status.exit.ok:
        raise RecipeError(f"training failed. {run_tools.failure_text(job, status)}", culprit="config")
    return verify_training(folder, run_tools, None)


def verify_training(folder: ExperimentFolder, run_tools: RunTools, stopped: EarlyStop | None) -> Training:
    """The training in `model/`, whole or stopped before its end. Raises RecipeError saying what is wrong."""
    config = engine_config(folder, "train").values
    spent = training_cost(folder, run_tools)
    rows = trained_rows(config, len(read_json(folder.data / "data.json")))
    found = verify_state(folder.model, config, rows, spent.seconds, stopped)
    forecast = read_model(folder.forecast, Forecast) if folder.forecast.is_file() else None
    return found.model_copy(update={"spent": spent, "forecast": forecast})


def training_cost(folder: ExperimentFolder, run_tools: RunTools) -> Cost:
    """What all attempts that ended took; one that was killed left nothing."""
    ends = [end for job in folder.jobs.glob("train.*") if (end := run_tools.sandbox.poll(job).exit)]
    return Cost(
        seconds=sum(end.seconds for end in ends),
        cpu=round(sum(end.cpu for end in ends), 2),
        memory=max((end.peak_memory for end in ends), default=0),
        device_memory=device_memory(folder.model / "cost.json"),
    )


def device_memory(cost: Path) -> int | None:
    """The most bytes of a GPU that a training held, by its own account; None without one."""
    try:
        told = json.loads(read_bytes(cost))["device_memory"]["reserved"]
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return told if type(told) is int and is_plain_number(told) and told >= 0 else None


def stopped_early(state: Mapping[str, Any]) -> bool:
    """Whether the engine's own early stopping ran out of patience, which is an end like any other."""
    try:
        found = state["stateful_callbacks"]["EarlyStoppingCallback"]
        waited = found["attributes"]["early_stopping_patience_counter"]
        return bool(waited >= found["args"]["early_stopping_patience"])
    except (KeyError, TypeError):
        return False


def verify_state(
    out: Path, config: Mapping[str, Any], rows: int, seconds: float, stopped: EarlyStop | None = None
) -> Training:
    """Read the trainer's state; exit status 0 proves nothing. Raises RecipeError saying what is wrong."""
    state = trainer_state(out)
    if state["global_step"] != state["max_steps"] and stopped is None and not stopped_early(state):
        raise RecipeError(f"training ended at step {state['global_step']} of {state['max_steps']}", culprit="config")
    history = state["log_history"]
    losses = [float(row["loss"]) for row in history if "loss" in row]
    norms = [float(row["grad_norm"]) for row in history if "grad_norm" in row]
    if not losses:
        raise RecipeError("training logged no loss: logging_steps is larger than the number of steps", culprit="config")
    lost = any(
        not (math.isfinite(a) or math.isfinite(b)) for a, b in itertools.pairwise(norms)
    )  # one is a step left out
    if not all(map(math.isfinite, losses)) or 0.0 in losses or lost:
        raise RecipeError("the loss became NaN, infinite or exactly 0: the learning rate is too high", culprit="config")
    if not any(p for pattern in WEIGHTS for p in out.glob(pattern)):
        raise RecipeError("training left no weights in safetensors form", culprit="config")
    return Training(
        steps=state["global_step"],
        seconds=round(seconds, 1),
        rows=rows,
        first_loss=losses[0],
        last_loss=mean(losses[-max(1, len(losses) // 10) :]),
        tail_slope=round(tail_slope(losses), 4),
        method=config["finetuning_type"],
        stopped=stopped,
    )


def trainer_state(out: Path) -> dict[str, Any]:
    """The trainer's last state, of its history the numbers. Raises RecipeError where there is none, or another thing."""
    try:
        state: dict[str, Any] = json.loads(read_bytes(out / STATE))
        steps = (state["global_step"], state["max_steps"])
        history = [numeric_fields(row) for row in state["log_history"]]
    except FileNotFoundError as e:
        raise RecipeError(f"training left no {STATE}", culprit="config") from e
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise RecipeError(f"training left a {STATE} that is none: {e!r}"[:500], culprit="config") from e
    if not all(type(step) is int and is_plain_number(step) for step in steps):
        raise RecipeError(f"training left a {STATE} whose steps are {steps}"[:500], culprit="config")
    return {**state, "log_history": history}


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean of at least one value."""
    return sum(values) / len(values)


def tail_slope(losses: Sequence[float]) -> float:
    """Relative change between the halves of the last quarter of the losses; negative: still falling."""
    tail = losses[-max(2, len(losses) // 4) :]
    half = len(tail) // 2
    before, after = mean(tail[:half] or tail), mean(tail[half:])
    return (after - before) / before if before else 0.0
