"""`tuneloop stop`: ask a run that works in another terminal to pause."""

from __future__ import annotations

import click

from tuneloop.cli.pick import pick
from tuneloop.core.errors import SetupError
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.settings import load_settings
from tuneloop.graph.lock import is_held
from tuneloop.tools.runs.find import runs
from tuneloop.tools.runs.inbox import put


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
def command(run_id: str | None) -> None:
    """Ask RUN (the newest at work) to pause; everything is kept and `tuneloop resume` goes on."""
    run = at_work(load_settings().home, run_id)
    put(run.inbox, do="pause")
    click.echo(f"run {run.id} was asked to pause; to go on: tuneloop resume {run.id}")


def at_work(home: Home, name: str | None) -> RunFolder:
    """The run somebody works on. Raises SetupError when nobody does: a request kept for later would stop a resume."""
    if name is not None:
        run = pick(home, name)
        if not is_held(run.lock):
            raise SetupError(f"nobody works on run {run.id} now: nothing to stop")
        return run
    for run in runs(home):
        if is_held(run.lock):
            return run
    raise SetupError(f"no run in {home.runs} is at work: nothing to stop")
