"""A training that the watch ended: why is written down first, then its last good checkpoint becomes the model."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tuneloop.core.errors import InfrastructureError, RecipeError
from tuneloop.core.experiment import EarlyStop, Training, TrainingFinding
from tuneloop.core.files import read_model, write_json
from tuneloop.core.layout import ExperimentFolder
from tuneloop.graph.context import Context
from tuneloop.graph.wait import wait_for_job, wait_until_over
from tuneloop.tools.training import methods
from tuneloop.tools.training.launch import mark_complete_status, start_mark_complete
from tuneloop.tools.training.result import trainer_state

NONE_WHOLE = 3
NEWEST = 1 << 60


def stop_note_path(folder: ExperimentFolder) -> Path:
    """Where the reason is kept, so that a kill between stop and offer changes nothing."""
    return folder.root / "stopped.json"


class StopNote(BaseModel):
    """Why a training is stopped; `of`: steps that were planned."""

    model_config = ConfigDict(frozen=True)

    finding: TrainingFinding
    of: int


def write_stop_note(folder: ExperimentFolder, finding: TrainingFinding, of: int) -> None:
    """Write the evidence before anything is ended."""
    write_json(stop_note_path(folder), StopNote(finding=finding, of=of).model_dump(mode="json"))


def read_stop_note(folder: ExperimentFolder) -> StopNote | None:
    """The evidence of a stop that was begun."""
    file = stop_note_path(folder)
    return read_model(file, StopNote) if file.is_file() else None


def stop_and_mark_complete(ctx: Context) -> Training:
    """End the training; its newest whole checkpoint from before the failure is the experiment's model.

    Raises RecipeError with the evidence when there is none, InfrastructureError when only the disk is to blame.
    """
    folder, note = ctx.folder, read_stop_note(ctx.folder)
    assert note is not None
    why = note.finding
    end_training(ctx, why)
    methods.end(ctx.run_tools, folder)
    if why.kind == "disk":
        stop_note_path(folder).unlink()
        raise InfrastructureError(f"{why.text}; its checkpoints are whole: free some and run `tuneloop resume`")
    step = mark_checkpoint_complete(ctx, why)
    if step is None:
        culprit = "environment" if why.kind in ("deadline", "stalled") else "config"
        raise RecipeError(f"training stopped at step {why.step} of {note.of}: {why.text}", culprit=culprit)
    stopped = EarlyStop(kind=why.kind, text=why.text, at=why.step, step=step, of=note.of)
    return methods.verify(ctx.run_tools, folder, stopped)


def end_training(ctx: Context, why: TrainingFinding) -> None:
    """A model that is sound is saved first; after a divergence what was saved before is better."""
    number, save = ctx.state.experiment, why.good is None and why.kind != "disk"
    status = ctx.training.status(number, "train")
    if status.state == "running":
        ctx.training.stop(number, "train", save=save)
        status = wait_until_over(lambda: ctx.training.status(number, "train"))
    if status.state == "running":
        raise InfrastructureError("the training does not end although it was told to; see `tuneloop status`")


def mark_checkpoint_complete(ctx: Context, why: TrainingFinding) -> int | None:
    """Make the offer; the step of the model, None when no whole checkpoint is old enough."""
    run_tools, folder, calm = ctx.run_tools, ctx.folder, ctx.without_deadline()
    for _ in range(3):
        start_mark_complete(run_tools, folder, NEWEST if why.good is None else why.good)
        status = wait_for_job(
            calm,
            "offer",
            lambda: mark_complete_status(run_tools, folder),
            lambda: run_tools.stop(folder.jobs, "offer"),
            run_tools.proof(folder.jobs, "offer"),
        )
        if status.exit and status.exit.code == NONE_WHOLE:
            return None
        if status.exit and status.exit.ok:
            return int(trainer_state(folder.model)["global_step"])
    raise InfrastructureError(f"the last good checkpoint could not be made the model; look at {folder.jobs}")
