"""Ask a person at this terminal about a plan or a launch: yes, no with a reason, or the recipe changed in $EDITOR."""

from __future__ import annotations

import os
import select
import sys
import tempfile
from pathlib import Path

import click

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.experiment import ApprovalDecision, ApprovalRequest
from tuneloop.core.formatting import printable
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.lifecycle.lock import hold_lock
from tuneloop.graph.steering.exchange import await_answer
from tuneloop.tools.runs.approvals import edit_to_answer, editable_texts, find_decision, write_decision
from tuneloop.tools.runs.messages import say

CHOICES, STOP_CHOICES = "[y]es, [n]o REASON, [e]dit, [q]uit: ", "[y]es, [n]o REASON, [q]uit: "
GLANCE = 0.5
PATIENCE = 60.0


def format_question(asked: ApprovalRequest) -> str:
    """The question, as foreign text is written."""
    return "\n".join(printable(line, 2000) for line in asked.text.splitlines())


def ask_in_terminal(run: RunFolder, settings: Settings, asked: ApprovalRequest) -> bool:
    """Until it is answered, here or by another process; False when the person leaves it open."""
    click.echo(format_question(asked), err=True)
    folder, lines = run.experiment(asked.experiment), LineReader(sys.stdin.fileno())
    while find_decision(folder, asked.at, asked.key) is None:
        click.echo(STOP_CHOICES if asked.at == "stop" else CHOICES, nl=False, err=True)
        while not lines.ready(GLANCE):
            if find_decision(folder, asked.at, asked.key):
                click.echo("answered elsewhere", err=True)
                return True
        line = lines.next()
        if not line or line.strip().lower() in ("q", "quit"):
            return False
        try:
            parse_answer(run, settings, asked, line.strip())
        except InvalidRequestError as e:
            click.echo(printable(str(e), 2000), err=True)
    return True


class LineReader:
    """Lines of a descriptor, which can be waited for: a buffered file would hide those that it has read already."""

    def __init__(self, source: int) -> None:
        self.source, self.rest = source, b""

    def ready(self, seconds: float) -> bool:
        """Whether there is a line, or the beginning of one, within so many seconds."""
        return b"\n" in self.rest or bool(select.select([self.source], [], [], seconds)[0])

    def next(self) -> str:
        """The next line; "" at the end."""
        while b"\n" not in self.rest and (more := os.read(self.source, 4096)):
            self.rest += more
        line, end, self.rest = self.rest.partition(b"\n")
        return (line + end).decode(errors="replace")


def parse_answer(run: RunFolder, settings: Settings, asked: ApprovalRequest, said: str) -> None:
    """One line of an answer. Raises InvalidRequestError when it is none, or when what was edited makes no sense."""
    first, _, reason = said.partition(" ")
    word = first.lower().rstrip(",:")
    if word in ("e", "edit") and asked.at != "stop":
        edit_recipe(run, asked)
    elif word in ("y", "yes", "n", "no"):
        answer = "yes" if word.startswith("y") else "no"
        await_answer(run, settings, say(run, f"{answer} {reason}".strip()), PATIENCE)
    else:
        right = "yes, no REASON or quit" if asked.at == "stop" else "yes, no REASON, edit or quit"
        raise InvalidRequestError(f"{said[:80]!r} is no answer; right is {right}")


def edit_recipe(run: RunFolder, asked: ApprovalRequest) -> ApprovalDecision:
    """Hypothesis and recipe in $EDITOR; the changes are the answer, checked like any recipe. Raises InvalidRequestError."""
    folder = run.experiment(asked.experiment)
    with tempfile.TemporaryDirectory(prefix="tuneloop-") as place:
        before = editable_texts(folder)
        for name, text in before.items():
            (Path(place) / name).write_text(text, encoding="utf-8")
        click.edit(filename=[str(Path(place) / name) for name in before])
        after = {name: (Path(place) / name).read_text(encoding="utf-8") for name in before}
    decision = edit_to_answer(before, after)
    with hold_lock(run.lock):
        return write_decision(folder, asked.at, asked.key, decision)
