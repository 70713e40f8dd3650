"""`tuneloop stop`: ask a run that works in another terminal to pause, or end the jobs of one that was killed."""

from __future__ import annotations

import click

from tuneloop.cli.select_run import select_run
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.run_lease import is_worked_on
from tuneloop.core.settings import load_settings
from tuneloop.tools.runs.manifest import all_runs
from tuneloop.tools.runs.messages import live_jobs, request_pause, stop_jobs

EXAMPLES = """\b
Examples:
  tuneloop stop            the newest run at work
  tuneloop stop my-run
"""


@click.command(epilog=EXAMPLES)
@click.argument("run_id", metavar="[RUN]", required=False)
def command(run_id: str | None) -> None:
    """Ask RUN (the newest at work) to pause; everything is kept and `tuneloop resume` goes on.

    Where its process was killed and its jobs go on by themselves, the jobs are ended.
    """
    settings = load_settings()
    run = find_running(settings.home, run_id)
    if request_pause(run):
        click.echo(f"run {run.id} was asked to pause; to go on: tuneloop resume {run.id}")
        return
    ended = stop_jobs(run, settings)
    if not ended:
        raise InvalidRequestError(f"nobody works on run {run.id} now, and it has no job: nothing to stop")
    click.echo(f"ended: {', '.join(ended)}; nobody worked on run {run.id}; to go on: tuneloop resume {run.id}")


def find_running(home: Home, name: str | None) -> RunFolder:
    """The run that is named, else the newest at work. Raises InvalidRequestError when there is none."""
    if name is not None:
        return select_run(home, name)
    for run in all_runs(home):
        if is_worked_on(run.root) or live_jobs(run):
            return run
    raise InvalidRequestError(f"no run in {home.runs} is at work: nothing to stop")
