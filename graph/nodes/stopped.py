"""A training that the watch ended: why is written down first, then its last good checkpoint becomes the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuneloop.core.errors import RecipeError, WorldError
from tuneloop.core.experiment import Stopped, Training
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import ExperimentFolder
from tuneloop.graph.context import Context
from tuneloop.graph.wait import until_over, wait
from tuneloop.tools.trained import proven, trainer_state
from tuneloop.tools.training import offer_status, start_offer
from tuneloop.tools.workbench import job_report

NONE_WHOLE = 3
NEWEST = 1 << 60


def note_file(folder: ExperimentFolder) -> Path:
    """Where the reason is kept, so that a kill between stop and offer changes nothing."""
    return folder.root / "stopped.json"


def note_stop(folder: ExperimentFolder, finding: dict[str, Any], status: dict[str, Any]) -> None:
    """Write the evidence before anything is ended."""
    write_json(note_file(folder), {**finding, "of": status.get("total", 0)})


def find_stop(folder: ExperimentFolder) -> dict[str, Any] | None:
    """The evidence of a stop that was begun."""
    file = note_file(folder)
    found: dict[str, Any] | None = read_json(file) if file.is_file() else None
    return found


def stop_and_offer(ctx: Context) -> Training:
    """End the training; its newest whole checkpoint from before the trouble is the experiment's model.

    Raises RecipeError with the evidence when there is none, WorldError when only the disk is to blame.
    """
    folder, why = ctx.folder, find_stop(ctx.folder)
    assert why is not None
    end_training(ctx, why)
    if why["kind"] == "disk":
        note_file(folder).unlink()
        raise WorldError(f"{why['text']}; its checkpoints are whole: free some and run `tuneloop resume`")
    step = offered_step(ctx, why)
    if step is None:
        culprit = "environment" if why["kind"] in ("deadline", "stalled") else "config"
        raise RecipeError(f"training stopped at step {why['step']} of {why['of']}: {why['text']}", culprit=culprit)
    stopped = Stopped(kind=why["kind"], text=why["text"], at=why["step"], step=step, of=why["of"])
    return proven(folder, ctx.bench, stopped)


def end_training(ctx: Context, why: dict[str, Any]) -> None:
    """A model that is sound is saved first; after a divergence what was saved before is better."""
    number, save = ctx.state.experiment, why.get("good") is None and why["kind"] != "disk"
    status = ctx.call("training_status", experiment=number, kind="train")
    if status["state"] == "running":
        ctx.call("training_stop", experiment=number, kind="train", save=save)
        status = until_over(lambda: ctx.call("training_status", experiment=number, kind="train"))
    if status["state"] == "running":
        raise WorldError("the training does not end although it was told to; see `tuneloop status`")


def offered_step(ctx: Context, why: dict[str, Any]) -> int | None:
    """Make the offer; the step of the model, None when no whole checkpoint is old enough."""
    bench, folder, calm = ctx.bench, ctx.folder, ctx.unhurried()
    good = why.get("good")
    for _ in range(3):
        start_offer(bench, folder, NEWEST if good is None else good)
        status = wait(
            calm,
            "offer",
            lambda: job_report(offer_status(bench, folder)),
            lambda: bench.stop(folder.jobs, "offer"),
            bench.proof(folder.jobs, "offer"),
        )
        if status["state"] == "over" and status["exit"]["code"] == NONE_WHOLE:
            return None
        if status["state"] == "over" and status["exit"]["code"] == 0 and status["exit"]["reason"] == "finished":
            return int(trainer_state(folder.model)["global_step"])
    raise WorldError(f"the last good checkpoint could not be made the model; look at {folder.jobs}")
