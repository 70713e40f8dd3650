"""Drive a run in this terminal: show it, and whatever ends it early, say the line that resumes it."""

from __future__ import annotations

import sys

import click

from tuneloop.cli.approving import ask_here, shown
from tuneloop.cli.extending import ask_for_more
from tuneloop.cli.live import showing
from tuneloop.cli.main import INTERRUPTED, fail
from tuneloop.core.errors import WorldError
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.runs import RunOutcome, drive
from tuneloop.tools.runs.approvals import open_question


def work(run: RunFolder, settings: Settings, *, step_n: int | None, as_json: bool) -> int:
    """Work on the run until it is finished or paused; the exit code. 0: finished, or paused as asked."""
    try:
        outcome = sitting(run, settings, step_n, as_json)
        while outcome.asks and asked_here(run, settings, outcome, as_json):
            outcome = sitting(run, settings, step_n, as_json)
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


def sitting(run: RunFolder, settings: Settings, step_n: int | None, as_json: bool) -> RunOutcome:
    """One drive, shown."""
    with showing(run, as_json):
        return drive(run, settings, step_n=step_n, attended=there(as_json))


def there(as_json: bool) -> bool:
    """Whether somebody sits at this terminal."""
    return not as_json and sys.stdin.isatty() and sys.stderr.isatty()


def asked_here(run: RunFolder, settings: Settings, outcome: RunOutcome, as_json: bool) -> bool:
    """Ask the person at this terminal, where there is one; whether the run may go on with an answer."""
    asked = open_question(run)
    if asked is None:
        return ask_for_more(run, settings, outcome.question) if outcome.question else True
    if there(as_json):
        return ask_here(run, settings, asked)
    click.echo(f"{shown(asked)}\nto answer: tuneloop chat {run.id}", err=True)
    return False
