"""Ask a person at this terminal about a plan or a launch: yes, no with a reason, or the recipe changed in $EDITOR."""

from __future__ import annotations

import os
import select
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
import yaml
from pydantic import ValidationError

from tuneloop.core.approval import Asked, Decision
from tuneloop.core.errors import SetupError
from tuneloop.core.files import read_json
from tuneloop.core.layout import ExperimentFolder, RunFolder
from tuneloop.core.settings import Settings
from tuneloop.core.wording import clean
from tuneloop.graph.lock import hold
from tuneloop.graph.steering.exchange import await_answer
from tuneloop.tools.runs.approvals import decide, find_decision
from tuneloop.tools.runs.messages import say

CHOICES = "[y]es, [n]o REASON, [e]dit, [q]uit: "
IDEA = "hypothesis.yaml"
GLANCE = 0.5
PATIENCE = 60.0


def shown(asked: Asked) -> str:
    """The question, as foreign text is written."""
    return "\n".join(clean(line, 2000) for line in asked.text.splitlines())


def ask_here(run: RunFolder, settings: Settings, asked: Asked) -> bool:
    """Until it is answered, here or by another process; False when the person leaves it open."""
    click.echo(shown(asked), err=True)
    folder, lines = run.experiment(asked.experiment), Lines(sys.stdin.fileno())
    while find_decision(folder, asked.at, asked.key) is None:
        click.echo(CHOICES, nl=False, err=True)
        while not lines.ready(GLANCE):
            if find_decision(folder, asked.at, asked.key):
                click.echo("answered elsewhere", err=True)
                return True
        line = lines.next()
        if not line or line.strip().lower() in ("q", "quit"):
            return False
        try:
            take(run, settings, asked, line.strip())
        except SetupError as e:
            click.echo(clean(str(e), 2000), err=True)
    return True


class Lines:
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


def take(run: RunFolder, settings: Settings, asked: Asked, said: str) -> None:
    """One line of an answer. Raises SetupError when it is none, or when what was edited makes no sense."""
    first, _, reason = said.partition(" ")
    word = first.lower().rstrip(",:")
    if word in ("e", "edit"):
        edit(run, asked)
    elif word in ("y", "yes", "n", "no"):
        answer = "yes" if word.startswith("y") else "no"
        await_answer(run, settings, say(run, f"{answer} {reason}".strip()), PATIENCE)
    else:
        raise SetupError(f"{said[:80]!r} is no answer; right is yes, no REASON, edit or quit")


def edit(run: RunFolder, asked: Asked) -> Decision:
    """Hypothesis and recipe in $EDITOR; what was changed is the answer, and is checked like any recipe. Raises SetupError."""
    folder = run.experiment(asked.experiment)
    with tempfile.TemporaryDirectory(prefix="tuneloop-") as place:
        before = copies(folder)
        for name, text in before.items():
            (Path(place) / name).write_text(text, encoding="utf-8")
        click.edit(filename=[str(Path(place) / name) for name in before])
        after = {name: (Path(place) / name).read_text(encoding="utf-8") for name in before}
    decision = changed(before, after)
    with hold(run.lock):
        return decide(folder, asked.at, asked.key, decision)


def copies(folder: ExperimentFolder) -> dict[str, str]:
    """What may be edited, as text."""
    idea = yaml.safe_dump(read_json(folder.hypothesis), sort_keys=False, allow_unicode=True)
    return {IDEA: idea, folder.script.name: folder.script.read_text(), folder.config.name: folder.config.read_text()}


def changed(before: dict[str, str], after: dict[str, str]) -> Decision:
    """The answer that an edit is; nothing changed: yes. Raises SetupError when the hypothesis is none."""
    new = {name: text for name, text in after.items() if text != before[name]}
    try:
        idea: Any = yaml.safe_load(new[IDEA]) if IDEA in new else None
        files = {name: text for name, text in new.items() if name != IDEA}
        return Decision.model_validate({"decision": "edit" if new else "yes", "files": files, "hypothesis": idea})
    except (yaml.YAMLError, ValidationError) as e:
        raise SetupError(f"{IDEA}: {' '.join(str(e).split())[:300]}; nothing was changed") from e
