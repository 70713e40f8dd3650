"""A training that the watch ended: why is written down first, then its last good checkpoint becomes the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuneloop.core.errors import InfrastructureError, RecipeError
from tuneloop.core.experiment import EarlyStop, Training
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import ExperimentFolder
from tuneloop.graph.context import Context
from tuneloop.graph.wait import wait_for_job, wait_until_over
from tuneloop.tools.jobs.run_tools import job_report
from tuneloop.tools.training.launch import mark_complete_status, start_mark_complete
from tuneloop.tools.training.result import trainer_state, verify_training

NONE_WHOLE = 3
NEWEST = 1 << 60


def stop_note_path(folder: ExperimentFolder) -> Path:
    """Where the reason is kept, so that a kill between stop and offer changes nothing."""
    return folder.root / "stopped.json"


def write_stop_note(folder: ExperimentFolder, finding: dict[str, Any], status: dict[str, Any]) -> None:
    """Write the evidence before anything is ended."""
    write_json(stop_note_path(folder), {**finding, "of": status.get("total", 0)})


def read_stop_note(folder: ExperimentFolder) -> dict[str, Any] | None:
    """The evidence of a stop that was begun."""
    file = stop_note_path(folder)
    found: dict[str, Any] | None = read_json(file) if file.is_file() else None
    return found


def stop_and_mark_complete(ctx: Context) -> Training:
    """End the training; its newest whole checkpoint from before the failure is the experiment's model.

    Raises RecipeError with the evidence when there is none, InfrastructureError when only the disk is to blame.
    """
    folder, why = ctx.folder, read_stop_note(ctx.folder)
    assert why is not None
    end_training(ctx, why)
    if why["kind"] == "disk":
        stop_note_path(folder).unlink()
        raise InfrastructureError(f"{why['text']}; its checkpoints are whole: free some and run `tuneloop resume`")
    step = mark_checkpoint_complete(ctx, why)
    if step is None:
        culprit = "environment" if why["kind"] in ("deadline", "stalled") else "config"
        raise RecipeError(f"training stopped at step {why['step']} of {why['of']}: {why['text']}", culprit=culprit)
    stopped = EarlyStop(kind=why["kind"], text=why["text"], at=why["step"], step=step, of=why["of"])
    return verify_training(folder, ctx.run_tools, stopped)


def end_training(ctx: Context, why: dict[str, Any]) -> None:
    """A model that is sound is saved first; after a divergence what was saved before is better."""
    number, save = ctx.state.experiment, why.get("good") is None and why["kind"] != "disk"
    status = ctx.call("training_status", experiment=number, kind="train")
    if status["state"] == "running":
        ctx.call("training_stop", experiment=number, kind="train", save=save)
        status = wait_until_over(lambda: ctx.call("training_status", experiment=number, kind="train"))
    if status["state"] == "running":
        raise InfrastructureError("the training does not end although it was told to; see `tuneloop status`")


def mark_checkpoint_complete(ctx: Context, why: dict[str, Any]) -> int | None:
    """Make the offer; the step of the model, None when no whole checkpoint is old enough."""
    run_tools, folder, calm = ctx.run_tools, ctx.folder, ctx.without_deadline()
    good = why.get("good")
    for _ in range(3):
        start_mark_complete(run_tools, folder, NEWEST if good is None else good)
        status = wait_for_job(
            calm,
            "offer",
            lambda: job_report(mark_complete_status(run_tools, folder)),
            lambda: run_tools.stop(folder.jobs, "offer"),
            run_tools.proof(folder.jobs, "offer"),
        )
        if status["state"] == "over" and status["exit"]["code"] == NONE_WHOLE:
            return None
        if status["state"] == "over" and status["exit"]["code"] == 0 and status["exit"]["reason"] == "finished":
            return int(trainer_state(folder.model)["global_step"])
    raise InfrastructureError(f"the last good checkpoint could not be made the model; look at {folder.jobs}")
