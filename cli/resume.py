"""`tuneloop resume`: go on with a run where it stopped, also after a crash."""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import click

from tuneloop.cli.select_run import is_finished, select_unfinished_run
from tuneloop.core.formatting import printable
from tuneloop.core.layout import RunFolder
from tuneloop.core.setting_values import TrackerName
from tuneloop.core.settings import Settings, load_settings
from tuneloop.core.settings import allow_unsandboxed as allow
from tuneloop.graph.lifecycle.integrity import check_unchanged, read_setup
from tuneloop.graph.lifecycle.lock import hold_lock
from tuneloop.graph.telemetry.tracker_process import check_trackers
from tuneloop.tools.runs.manifest import read_spec
from tuneloop.tools.runs.signature import is_signed
from tuneloop.tools.runs.signature import trust_folder as sign_folder

EXAMPLES = """\b
Examples:
  tuneloop resume                     the newest run that is not finished
  tuneloop resume my-run --step-n 1   one node further
"""


@click.command(epilog=EXAMPLES)
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--step-n", type=click.IntRange(min=1), help="Pause after so many nodes of the graph.  [default: never]")
@click.option("--notify", metavar="URL", help="As in tuneloop run.  [default: TUNELOOP_NOTIFY_URL]")
@click.option(
    "--track",
    multiple=True,
    type=click.Choice(get_args(TrackerName)),
    help="As in tuneloop run.  [default: TUNELOOP_TRACKERS]",
)
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
@click.option(
    "--trust-folder",
    is_flag=True,
    help="Sign a run's folder that came from elsewhere, and resume it; its jobs run sandboxed as any.",
)
@click.option("--allow-unsandboxed", is_flag=True, help="Run generated code unprotected where no sandbox works.")
@click.pass_context
def command(
    ctx: click.Context,
    run_id: str | None,
    step_n: int | None,
    notify: str | None,
    track: tuple[str, ...],
    as_json: bool,
    allow_unsandboxed: bool,
    trust_folder: bool,
) -> None:
    """Go on with RUN (the newest unfinished one); a training that went on without us is picked up, not repeated."""
    if allow_unsandboxed:
        allow(always=False)
    settings = load_settings(notify_url=notify, trackers=track or None)
    check_trackers(settings.trackers)
    run = select_unfinished_run(settings.home, run_id)
    if is_finished(run):
        click.echo(f"run {run.id} is finished: {run.report}", err=True)
        return
    if trust_folder and not is_signed(run):
        take_over(run, settings)
    check_unchanged(run, settings)
    with hold_lock(run.lock):
        from tuneloop.cli.drive import (
            drive_in_terminal,  # brings the graph: a second of imports that a refusal does not wait for
        )

        ctx.exit(drive_in_terminal(run, settings, step_n=step_n, as_json=as_json))


def take_over(run: RunFolder, settings: Settings) -> None:
    """Sign a run from elsewhere, and say what its jobs will read; of one from another machine this is fetched.

    Raises InvalidRequestError, InfrastructureError.
    """
    read_spec(run)  # one that cannot be read is not signed
    if all(map(os.path.exists, places_of(run))):
        sign_folder(run)
    else:
        from tuneloop.graph.lifecycle.adopt import adopt_run  # brings the graph, as below

        adopt_run(run, settings)
    say_trusted(run)


def say_trusted(run: RunFolder) -> None:
    """Say what the jobs of a run that was signed on its owner's word will read."""
    spec = read_spec(run)
    read = list(map(str, places_of(run))) or [spec.benchmark, *spec.also, spec.base_model, *spec.datasets]
    click.echo(f"note: run {run.id} is trusted from now on; its jobs read {', '.join(map(printable, read))}", err=True)


def places_of(run: RunFolder) -> list[Path]:
    """Where what the run stands on lies; [] before `prepare`."""
    setup = read_setup(run)
    return [setup.model_root, *setup.datasets.values(), *(one.root for one in setup.benchmarks)] if setup else []
