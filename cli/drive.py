"""Drive a run in this terminal: show it, and whatever ends it early, say the line that resumes it."""

from __future__ import annotations

import sys

import click

from tuneloop.cli.approval_prompt import LineReader, ask_in_terminal, format_question
from tuneloop.cli.live import showing
from tuneloop.cli.main import INTERRUPTED, print_error
from tuneloop.core.errors import FencedError, InfrastructureError
from tuneloop.core.formatting import format_duration, printable
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.lifecycle.drive import RunOutcome, drive
from tuneloop.graph.steering.exchange import await_answer
from tuneloop.tools.budget.limits import current_limits
from tuneloop.tools.runs.approvals import open_question
from tuneloop.tools.runs.manifest import read_spec
from tuneloop.tools.runs.messages import say

# A reached limit is put to the user at this terminal; without an answer the run finishes.

PATIENCE = 900.0  # seconds without input after which the user counts as absent
CHOICES = "more AMOUNT (e.g. more 2h), [f]inish, [q]uit: "


def ask_for_more(run: RunFolder, settings: Settings, question: str, patience: float = PATIENCE) -> bool:
    """Until a limit is moved, or the run is to finish; False when the person leaves it open."""
    click.echo(printable(question, 2000), err=True)
    lines, before = LineReader(sys.stdin.fileno()), current_limits(run, read_spec(run))
    while current_limits(run, read_spec(run)) == before:
        click.echo(CHOICES, nl=False, err=True)
        if not lines.ready(patience):
            click.echo(f"nobody answered for {format_duration(patience)}: the run finishes", err=True)
            return send_and_show(run, settings, "finish")
        line = lines.next()
        said = line.strip()
        if not line or said.lower() in ("q", "quit"):
            return False
        if said.lower() in ("f", "finish"):
            return send_and_show(run, settings, "finish")
        send_and_show(run, settings, said)
    return True


def send_and_show(run: RunFolder, settings: Settings, text: str) -> bool:
    """Say it to the run, and show its answer."""
    line = await_answer(run, settings, say(run, text), PATIENCE) if text else None
    if line is not None:
        click.echo(printable(line.text, 2000), err=True)
    return True


def drive_in_terminal(run: RunFolder, settings: Settings, *, step_n: int | None, as_json: bool) -> int:
    """Work on the run until it is finished or paused; the exit code. 0: finished, or paused as asked."""
    try:
        outcome = drive_once(run, settings, step_n, as_json)
        while outcome.asks and ask_user(run, settings, outcome, as_json):
            outcome = drive_once(run, settings, step_n, as_json)
    except KeyboardInterrupt:
        code = print_error("interrupted; everything is on disk", INTERRUPTED)
    except FencedError as e:
        return print_error(str(e), 1)
    except InfrastructureError as e:
        code = print_error(str(e), 1)
    else:
        if outcome.state == "finished":
            click.echo(f"report: {run.report}", err=True)
            return 0
        code = 0
    click.echo(f"to go on: tuneloop resume {run.id}", err=True)
    return code


def drive_once(run: RunFolder, settings: Settings, step_n: int | None, as_json: bool) -> RunOutcome:
    """One drive, shown."""
    with showing(run, as_json):
        return drive(run, settings, step_n=step_n, interactive=is_terminal(as_json))


def is_terminal(as_json: bool) -> bool:
    """Whether this terminal is interactive."""
    return not as_json and sys.stdin.isatty() and sys.stderr.isatty()


def ask_user(run: RunFolder, settings: Settings, outcome: RunOutcome, as_json: bool) -> bool:
    """Ask the person at this terminal, where there is one; whether the run may go on with an answer."""
    asked = open_question(run)
    if asked is None:
        return ask_for_more(run, settings, outcome.question) if outcome.question else True
    if is_terminal(as_json):
        return ask_in_terminal(run, settings, asked)
    click.echo(f"{format_question(asked)}\nto answer: tuneloop chat {run.id}", err=True)
    return False
