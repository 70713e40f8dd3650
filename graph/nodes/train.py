"""train: the full training, launched once and waited for; `training.json` proves that it is whole."""

from __future__ import annotations

import shutil
from typing import Any

from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Training
from tuneloop.core.files import read_json, write_json
from tuneloop.graph.context import Context
from tuneloop.graph.wait import wait
from tuneloop.tools.training import training_result


def train(ctx: Context) -> dict[str, Any]:
    """Train, verify, drop checkpoints."""
    finished_training(ctx)
    return {"stage": "evaluate"}


def finished_training(ctx: Context) -> Training:
    """The experiment's training, found whole or made."""
    folder = ctx.folder
    if folder.training.is_file():
        return Training.model_validate(read_json(folder.training))
    run_training(ctx, "train")
    status, job = ctx.bench.status(folder.jobs, "train")
    if job is None:
        raise RecipeError("the training was never launched", culprit="environment")
    result = training_result(ctx.bench, folder, status, job)
    for checkpoint in folder.model.glob("checkpoint-*"):
        shutil.rmtree(checkpoint)
    write_json(folder.training, result.model_dump(mode="json"))
    return result


def run_training(ctx: Context, kind: str) -> None:
    """Launch a micro-run or a training through the server and wait. Raises RecipeError when it ends badly."""
    number, folder = ctx.state.experiment, ctx.folder
    ctx.call("training_launch", experiment=number, kind=kind)
    status = wait(
        ctx,
        kind,
        lambda: ctx.call("training_status", experiment=number, kind=kind),
        lambda: ctx.call("training_stop", experiment=number, kind=kind),
    )
    if status["state"] == "lost":
        return run_training(ctx, kind)
    end = status["exit"]
    if end is None or end["code"] != 0 or end["reason"] != "finished":
        seen, job = ctx.bench.status(folder.jobs, kind)
        text = ctx.bench.why(job, seen) if job else "never launched"
        raise RecipeError(
            f"{kind} failed. {text}", culprit="environment" if end and end["reason"] == "disk" else "config"
        )
    return None
