"""train: the full training, launched once, watched live and waited for; `training.json` proves what it left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuneloop.core.errors import RecipeError, WorldError
from tuneloop.core.events import Forecasted
from tuneloop.core.experiment import Training
from tuneloop.core.files import read_json, write_json
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.stopped import find_stop, note_stop, stop_and_offer
from tuneloop.graph.wait import KILLS, alarm, wait, watched
from tuneloop.tools.model_files import foreign, take_model
from tuneloop.tools.trained import training_result
from tuneloop.tools.training import was_killed


def train(ctx: Context) -> dict[str, Any]:
    """Train, verify, drop checkpoints."""
    finished_training(ctx)
    return {"stage": "evaluate"}


def finished_training(ctx: Context) -> Training:
    """The experiment's training, found whole or made."""
    folder = ctx.folder
    if not folder.training.is_file():
        result = find_stop(folder) and stop_and_offer(ctx)
        done = (result or made(ctx)).model_copy(update={"left_out": foreign(folder.model)})
        write_json(folder.training, done.model_dump(mode="json"))
        if done.forecast:
            ctx.emit(Forecasted(experiment=ctx.state.experiment, forecast=done.forecast, took=done.spent))
    take_model(folder, ctx.bench.setup.model_root)  # checkpoints go too: what they were for is proven
    return Training.model_validate(read_json(folder.training))


def made(ctx: Context) -> Training:
    """Train to the end, or to where the watch stops it. Raises RecipeError when nothing is left of it."""
    folder, kills, got = ctx.folder, 0, 0
    while kills < KILLS:
        status = watch_training(ctx)
        found, end = alarm(status), status["exit"]
        if found is None and end and end["reason"] == "timeout":
            found = {"kind": "deadline", "level": "stop", "text": "its time was over", "step": status["done"]}
        if found is not None:
            ctx.emit(watched(ctx, "train", found, status))
            note_stop(folder, found, status)
            return stop_and_offer(ctx)
        seen, job = ctx.bench.status(folder.jobs, "train")
        if job is not None and seen.state == "over" and not was_killed(seen):
            check_end(ctx, "train", status)
            return training_result(ctx.bench, folder, seen, job)
        before, got = got, reached(folder.model)
        kills = 0 if got > before else kills + 1
    raise WorldError(f"the training was killed {KILLS} times without getting on; look at {folder.jobs}")


def reached(model: Path) -> int:
    """Step of the newest checkpoint, 0 without one: a training that is always killed after it gets nowhere."""
    names = (path.name.removeprefix("checkpoint-") for path in model.glob("checkpoint-*"))
    return max((int(name) for name in names if name.isdecimal()), default=0)


def watch_training(ctx: Context) -> dict[str, Any]:
    """Launch and wait; the last status, which may be that of a running job with an alarm."""
    number, left = ctx.state.experiment, ctx.clock()
    ctx.call("training_launch", experiment=number, kind="train")
    return wait(
        ctx,
        "train",
        lambda: ctx.call("training_status", experiment=number, kind="train", seconds_left=left()),
        lambda: ctx.call("training_stop", experiment=number, kind="train"),
        ctx.bench.proof(ctx.folder.jobs, "train"),
    )


def run_rehearsal(ctx: Context) -> None:
    """Launch a micro-run through the server and wait. Raises RecipeError when it ends badly."""
    number = ctx.state.experiment
    for _ in range(KILLS):
        ctx.call("training_launch", experiment=number, kind="rehearse")
        status = wait(
            ctx,
            "rehearse",
            lambda: ctx.call("training_status", experiment=number, kind="rehearse"),
            lambda: ctx.call("training_stop", experiment=number, kind="rehearse"),
            ctx.bench.proof(ctx.folder.jobs, "rehearse"),
        )
        if status["state"] == "over" and not was_killed(ctx.bench.status(ctx.folder.jobs, "rehearse")[0]):
            return check_end(ctx, "rehearse", status)
    raise WorldError(f"the micro-run was killed {KILLS} times; look at {ctx.folder.jobs}")


def check_end(ctx: Context, kind: str, status: dict[str, Any]) -> None:
    """Raises RecipeError when the job ended badly."""
    end = status["exit"]
    if end["code"] != 0 or end["reason"] != "finished":
        seen, job = ctx.bench.status(ctx.folder.jobs, kind)
        text = ctx.bench.why(job, seen) if job else "never launched"
        raise RecipeError(f"{kind} failed. {text}", culprit="environment" if end["reason"] == "disk" else "config")
