"""`tuneloop watch`: follow a run from another terminal; it only reads."""

from __future__ import annotations

import time

import click

from tuneloop.cli.live import follow
from tuneloop.cli.select_run import is_finished, select_run
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import load_settings
from tuneloop.graph.lifecycle.lock import is_held
from tuneloop.tools.runs.messages import live_jobs

EXAMPLES = """\b
Examples:
  tuneloop watch
  tuneloop watch my-run --json | jq -c 'select(.kind == "experiment_finished")'
"""
LOOK_EVERY = 2.0


@click.command(epilog=EXAMPLES)
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
def command(run_id: str | None, as_json: bool) -> None:
    """Show RUN (the newest) until nobody works on it any more: what was so far, then what happens.

    With --json every event from the first on. Ctrl-C ends the watching only.
    """
    run = select_run(load_settings().home, run_id)
    try:
        follow(run, as_json, IdleCheck(run))
    except KeyboardInterrupt:
        return
    if not is_finished(run):
        jobs = ", ".join(job.name for job in live_jobs(run))
        alone = f" (its job {jobs} goes on by itself; tuneloop stop {run.id} ends it)" if jobs else ""
        click.echo(f"nobody works on run {run.id} now{alone}; to go on: tuneloop resume {run.id}", err=True)


class IdleCheck:
    """Whether nobody works on the run; the lock is looked at every `LOOK_EVERY` seconds."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.idle = False
        self.looked = float("-inf")

    def __call__(self) -> bool:
        """The latest answer."""
        if time.monotonic() - self.looked >= LOOK_EVERY:
            self.idle, self.looked = not is_held(self.run.lock), time.monotonic()
        return self.idle
