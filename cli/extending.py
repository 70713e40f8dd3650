"""Ask the person at this terminal what becomes of a limit that is reached; who is not there does not keep the run waiting."""

from __future__ import annotations

import sys

import click

from tuneloop.cli.approving import Lines
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.core.wording import clean, duration
from tuneloop.graph.steering.exchange import await_answer
from tuneloop.tools.ledger.limits import limits
from tuneloop.tools.runs.manifest import read_spec
from tuneloop.tools.runs.messages import say

PATIENCE = 900.0  # seconds without a word after which nobody is there
CHOICES = "more AMOUNT (e.g. more 2h), [f]inish, [q]uit: "


def ask_for_more(run: RunFolder, settings: Settings, question: str, patience: float = PATIENCE) -> bool:
    """Until a limit is moved, or the run is to finish; False when the person leaves it open."""
    click.echo(clean(question, 2000), err=True)
    lines, before = Lines(sys.stdin.fileno()), limits(run, read_spec(run))
    while limits(run, read_spec(run)) == before:
        click.echo(CHOICES, nl=False, err=True)
        if not lines.ready(patience):
            click.echo(f"nobody answered for {duration(patience)}: the run finishes", err=True)
            return told(run, settings, "finish")
        line = lines.next()
        said = line.strip()
        if not line or said.lower() in ("q", "quit"):
            return False
        if said.lower() in ("f", "finish"):
            return told(run, settings, "finish")
        told(run, settings, said)
    return True


def told(run: RunFolder, settings: Settings, text: str) -> bool:
    """Say it to the run, and show its answer."""
    line = await_answer(run, settings, say(run, text), PATIENCE) if text else None
    if line is not None:
        click.echo(clean(line.text, 2000), err=True)
    return True
