"""Drive a run in this terminal: show it, and whatever ends it early, say the line that resumes it."""

from __future__ import annotations

import click

from tuneloop.cli.live import showing
from tuneloop.cli.main import INTERRUPTED, fail
from tuneloop.core.errors import WorldError
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.runs import drive


def work(run: RunFolder, settings: Settings, *, step_n: int | None, as_json: bool) -> int:
    """Work on the run until it is finished or paused; the exit code. 0: finished, or paused as asked."""
    try:
        with showing(run, as_json):
            outcome = drive(run, settings, step_n=step_n)
    except KeyboardInterrupt:
        code = fail("interrupted; everything is on disk", INTERRUPTED)
    except WorldError as e:
        code = fail(str(e), 1)
    else:
        if outcome.state == "finished":
            click.echo(f"report: {run.report}", err=True)
            return 0
        code = 0
    click.echo(f"to go on: tuneloop resume {run.id}", err=True)
    return code
