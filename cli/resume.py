"""`tuneloop resume`: go on with a run where it stopped, also after a crash."""

from __future__ import annotations

import click

from tuneloop.cli.select_run import is_finished, select_unfinished_run
from tuneloop.core.settings import load_settings
from tuneloop.graph.lifecycle.integrity import check_unchanged
from tuneloop.graph.lifecycle.lock import hold_lock

EXAMPLES = """\b
Examples:
  tuneloop resume                     the newest run that is not finished
  tuneloop resume my-run --step-n 1   one node further
"""


@click.command(epilog=EXAMPLES)
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--step-n", type=click.IntRange(min=1), help="Pause after so many nodes of the graph.")
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
@click.pass_context
def command(ctx: click.Context, run_id: str | None, step_n: int | None, as_json: bool) -> None:
    """Go on with RUN (the newest unfinished one); a training that went on without us is picked up, not repeated."""
    settings = load_settings()
    run = select_unfinished_run(settings.home, run_id)
    if is_finished(run):
        click.echo(f"run {run.id} is finished: {run.report}", err=True)
        return
    check_unchanged(run, settings)
    with hold_lock(run.lock):
        from tuneloop.cli.drive import (
            drive_in_terminal,  # brings the graph: a second of imports that a refusal does not wait for
        )

        ctx.exit(drive_in_terminal(run, settings, step_n=step_n, as_json=as_json))
