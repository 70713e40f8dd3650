"""train: the full training, launched once, watched live and waited for; `training.json` proves what it left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuneloop.core.errors import InfrastructureError, RecipeError
from tuneloop.core.events import TrainingForecast
from tuneloop.core.experiment import Training, TrainingFinding
from tuneloop.core.files import read_model, write_json
from tuneloop.core.protocols import TrainingKind, TrainingStatus
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.early_stop import read_stop_note, stop_and_mark_complete, write_stop_note
from tuneloop.graph.wait import KILLS, finding_event, stopping_finding, wait_for_job
from tuneloop.tools.training import methods
from tuneloop.tools.training.launch import was_training_killed
from tuneloop.tools.weights.trained_files import accept_model, foreign_names


def train(ctx: Context) -> dict[str, Any]:
    """Train, verify, drop checkpoints."""
    finished_training(ctx)
    return {"stage": "evaluate"}


def finished_training(ctx: Context) -> Training:
    """The experiment's training, found whole or made."""
    folder = ctx.folder
    if not folder.training.is_file():
        result = read_stop_note(folder) and stop_and_mark_complete(ctx)
        done = (result or run_training(ctx)).model_copy(update={"left_out": foreign_names(folder.model)})
        write_json(folder.training, done.model_dump(mode="json"))
        if done.forecast:
            ctx.emit(TrainingForecast(experiment=ctx.state.experiment, forecast=done.forecast, took=done.spent))
    accept_model(folder, ctx.run_tools.setup.model_root)  # checkpoints go too: what they were for is proven
    return read_model(folder.training, Training)


def run_training(ctx: Context) -> Training:
    """Train to the end, or to where the watch stops it. Raises RecipeError when nothing is left of it."""
    folder, kills, got = ctx.folder, 0, 0
    while kills < KILLS:
        status = watch_training(ctx)
        found, end = stopping_finding(status), status.exit
        if found is None and end and end.reason == "timeout":
            found = TrainingFinding("deadline", "stop", "its time was over", status.done)
        if found is not None:
            ctx.emit(finding_event(ctx, "train", found, status))
            write_stop_note(folder, found, status.total)
            return stop_and_mark_complete(ctx)
        seen, job = ctx.run_tools.status(folder.jobs, "train")
        if job is not None and seen.state == "over" and not was_training_killed(seen):
            check_end(ctx, "train")
            return methods.result(ctx.run_tools, folder, seen, job)
        before, got = got, newest_step(folder.model)
        kills = 0 if got > before else kills + 1
    raise InfrastructureError(f"the training was killed {KILLS} times without getting on; look at {folder.jobs}")


def newest_step(model: Path) -> int:
    """Step of the newest checkpoint, 0 without one: a training that is always killed after it gets nowhere."""
    names = (path.name.removeprefix("checkpoint-") for path in model.glob("checkpoint-*"))
    return max((int(name) for name in names if name.isdecimal()), default=0)


def watch_training(ctx: Context) -> TrainingStatus:
    """Launch and wait; the last status, which may be that of a running job with an alarm."""
    number, left = ctx.state.experiment, ctx.clock()
    ctx.training.launch(number, "train")
    return wait_for_job(
        ctx,
        "train",
        lambda: ctx.training.status(number, "train", left()),
        lambda: ctx.training.stop(number, "train"),
        ctx.run_tools.proof(ctx.folder.jobs, "train"),
    )


def launch_smoke_run(ctx: Context) -> None:
    """Launch a smoke run through the server and wait. Raises RecipeError when it ends badly."""
    number = ctx.state.experiment
    for _ in range(KILLS):
        ctx.training.launch(number, "smoke_run")
        status = wait_for_job(
            ctx,
            "smoke_run",
            lambda: ctx.training.status(number, "smoke_run"),
            lambda: ctx.training.stop(number, "smoke_run"),
            ctx.run_tools.proof(ctx.folder.jobs, "smoke_run"),
        )
        if status.state == "over" and not was_training_killed(ctx.run_tools.status(ctx.folder.jobs, "smoke_run")[0]):
            return check_end(ctx, "smoke_run")
    raise InfrastructureError(f"the smoke run was killed {KILLS} times; look at {ctx.folder.jobs}")


def check_end(ctx: Context, kind: TrainingKind) -> None:
    """Raises RecipeError when the job ended badly."""
    seen, job = ctx.run_tools.status(ctx.folder.jobs, kind)
    if seen.exit is None or not seen.exit.ok:
        methods.end(ctx.run_tools, ctx.folder)
        text = ctx.run_tools.failure_text(job, seen) if job else "never launched"
        disk = seen.exit is not None and seen.exit.reason == "disk"
        raise RecipeError(f"{kind} failed. {text}", culprit="environment" if disk else "config")
