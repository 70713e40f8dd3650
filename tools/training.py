"""Train an experiment with LLaMA-Factory: micro-run (`rehearse`), full run (`train`), and what they prove."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Training
from tuneloop.core.files import digest, read_json, write_atomic, write_json
from tuneloop.core.job import Command, JobStatus
from tuneloop.core.layout import ExperimentFolder
from tuneloop.tools.gate.rehearsal import rehearsal_rows
from tuneloop.tools.limits import job_limits
from tuneloop.tools.params.finalize import finalize, write_dataset_info
from tuneloop.tools.paths import ENGINES
from tuneloop.tools.workbench import Workbench

REHEARSAL_STEPS = 4
WEIGHTS = ("model*.safetensors", "adapter_model.safetensors")


def _launch(bench: Workbench, folder: ExperimentFolder, name: str, out: Path, data: Path, steps: int | None) -> None:
    engine, settings = bench.engine("llamafactory"), bench.settings
    work = folder.work / name
    text = finalize(
        folder.config.read_text(),
        model=bench.setup.model_root,
        data=data,
        output=out,
        seed=bench.spec.seed,
        device=bench.setup.device,
        steps_override=steps,
    )
    key = digest(text, (data / "data.json").read_bytes(), bench.setup.model_fingerprint, engine.identity)
    if read_key(out) != key:
        shutil.rmtree(out, ignore_errors=True)
    for place in (work, out):
        place.mkdir(parents=True, exist_ok=True)
    write_atomic(work / "config.yaml", text)
    write_atomic(out / ".key", key)
    script = ENGINES / "llamafactory" / "train.py"
    env = {"PATH": f"{engine.bin}:/usr/bin:/bin", "LLAMAFACTORY_VERBOSITY": "WARN", "DISABLE_VERSION_CHECK": "1"}
    command = Command(
        argv=(str(engine.python), str(script), "train", str(work / "config.yaml")),
        cwd=str(work),
        env={**bench.environment(work), **engine.env, **env},
        read=(*engine.readable, str(script), str(data), str(bench.setup.model_root)),
        write=(str(out), str(work)),
        limits=job_limits(
            settings, settings.full_timeout if steps is None else settings.micro_batch_timeout, folder.root
        ),
        key=key,
    )
    bench.launch(folder.jobs, name, command)


def read_key(out: Path) -> str:
    """The key an output folder was begun for; a folder of another recipe is stale."""
    try:
        return (out / ".key").read_text()
    except FileNotFoundError:
        return ""


def start_training(bench: Workbench, folder: ExperimentFolder) -> str:
    """Launch the full run; returns the job's name. A killed attempt goes on from its last checkpoint."""
    _launch(bench, folder, "train", folder.model, folder.data, None)
    return "train"


def start_rehearsal(bench: Workbench, folder: ExperimentFolder) -> str:
    """Launch a few optimizer steps on the longest and on typical rows; returns the job's name."""
    sample = folder.work / "rehearsal_data"
    rows = read_json(folder.data / "data.json")
    lengths = [size(row) for row in rows]
    batch = int(yaml.safe_load(folder.config.read_text()).get("per_device_train_batch_size", 8))
    write_json(sample / "data.json", rehearsal_rows(rows, lengths, batch * REHEARSAL_STEPS))
    write_dataset_info(sample)
    _launch(bench, folder, "rehearse", folder.work / "rehearsal_model", sample, REHEARSAL_STEPS)
    return "rehearse"


def length_ratio(folder: ExperimentFolder) -> float:
    """Characters of a mean row over those of a mean rehearsed row, which was chosen long; at most 1."""
    rehearsed, rows = (read_json(place / "data.json") for place in (folder.work / "rehearsal_data", folder.data))
    return min(1.0, mean([size(row) for row in rows]) / mean([size(row) for row in rehearsed]))


def size(row: dict[str, str]) -> int:
    """Characters that a row is trained on."""
    return len(row["instruction"]) + len(row["output"])


def log_points(out: Path) -> list[dict[str, Any]]:
    """Rows of the engine's `trainer_log.jsonl`, a step that was logged twice (after a resume) once, in order."""
    points: dict[int, dict[str, Any]] = {}
    try:
        lines = (out / "trainer_log.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return []
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row.get("current_steps"), int):
            points.setdefault(row["current_steps"], {}).update({k: v for k, v in row.items() if v is not None})
    return [points[step] for step in sorted(points)]


def training_result(bench: Workbench, folder: ExperimentFolder, status: JobStatus, job: Path) -> Training:
    """Proof that a training is whole: every step done, finite losses, weights there. Raises RecipeError otherwise."""
    if status.exit is None or not status.exit.ok:
        raise RecipeError(f"training failed. {bench.why(job, status)}", culprit="config")
    config = yaml.safe_load((folder.work / "train" / "config.yaml").read_text())
    return verified(folder.model, config, len(read_json(folder.data / "data.json")), status.exit.seconds)


def verified(out: Path, config: Mapping[str, Any], rows: int, seconds: float) -> Training:
    """Read the trainer's state; exit status 0 proves nothing. Raises RecipeError saying what is wrong."""
    state_file = out / "trainer_state.json"
    if not state_file.is_file():
        raise RecipeError("training left no trainer_state.json", culprit="config")
    state = json.loads(state_file.read_text())
    if state["global_step"] != state["max_steps"]:
        raise RecipeError(f"training ended at step {state['global_step']} of {state['max_steps']}", culprit="config")
    history = state["log_history"]
    losses = [float(row["loss"]) for row in history if "loss" in row]
    norms = [float(row["grad_norm"]) for row in history if row.get("grad_norm") is not None]
    if not losses:
        raise RecipeError("training logged no loss: logging_steps is larger than the number of steps", culprit="config")
    if not all(map(math.isfinite, [*losses, *norms])) or 0.0 in losses:
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
        eval_losses=tuple(float(row["eval_loss"]) for row in history if "eval_loss" in row),
    )


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean of at least one value."""
    return sum(values) / len(values)


def tail_slope(losses: Sequence[float]) -> float:
    """Relative change between the halves of the last quarter of the losses; negative: still falling."""
    tail = losses[-max(2, len(losses) // 4) :]
    half = len(tail) // 2
    before, after = mean(tail[:half] or tail), mean(tail[half:])
    return (after - before) / before if before else 0.0


def seconds_per_step(out: Path) -> float:
    """Seconds per optimizer step of a finished run, by the trainer's own clock. Raises RecipeError without results."""
    try:
        results = read_json(out / "all_results.json")
        return float(results["train_runtime"]) / int(read_json(out / "trainer_state.json")["global_step"])
    except (FileNotFoundError, KeyError, ZeroDivisionError) as e:
        raise RecipeError("the micro-run left no results to forecast from", culprit="config") from e
