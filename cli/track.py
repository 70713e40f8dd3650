"""`tuneloop track`: send a run to MLflow, TensorBoard, Weights & Biases or trackio."""

from __future__ import annotations

from typing import get_args

import click

from tuneloop.cli.select_run import select_run
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.setting_values import TrackerName
from tuneloop.core.settings import load_settings

EXAMPLES = """\b
Examples:
  tuneloop track --to tensorboard      then: tensorboard --logdir tuneloop_files/runs
  MLFLOW_TRACKING_URI=http://127.0.0.1:5000 tuneloop track my-run --to mlflow
  WANDB_MODE=offline tuneloop run --loop-n 3 --track wandb     while the run is at work
"""


@click.command(epilog=EXAMPLES)
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option(
    "--to",
    "names",
    multiple=True,
    type=click.Choice(get_args(TrackerName)),
    help="Tracker, as often as wanted.  [default: TUNELOOP_TRACKERS]",
)
def command(run_id: str | None, names: tuple[TrackerName, ...]) -> None:
    """Send what a tracker does not have yet of RUN (the newest): parameters, scores, loss curves, recipes, the report."""
    from tuneloop.graph.telemetry.tracker_process import check_trackers
    from tuneloop.graph.telemetry.trackers import track

    settings = load_settings()
    run = select_run(settings.home, run_id)
    names = tuple(dict.fromkeys(names or settings.trackers))
    if not names:
        raise InvalidRequestError(f"no tracker is named; right is --to with one of {', '.join(get_args(TrackerName))}")
    check_trackers(names)
    problems = []
    for name in names:
        try:
            sent = [item.number for item in track(run, name)]
        except InfrastructureError as e:
            problems.append(str(e))
            continue
        click.echo(f"{name}: {len(sent) - 1} experiments of run {run.id} sent")
    if problems:
        raise InfrastructureError("; ".join(problems))
