"""Say something to a run and have its answer: from who works on it, or from here when nobody does."""

from __future__ import annotations

import time

from tuneloop.cli.slash import parsed
from tuneloop.core.directive import Line
from tuneloop.core.errors import SetupError
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import is_locked
from tuneloop.core.settings import Settings
from tuneloop.tools.runs.talking import answer, say

PATIENCE = 60.0  # seconds: whoever works on the run reads between two steps, at once while a job runs
GLANCE = 0.05


def tell(run: RunFolder, settings: Settings, text: str) -> Line | None:
    """Say it, slash or not, and wait for the answer; None when it takes too long."""
    said, meaning = parsed(text)
    return await_answer(run, settings, say(run, said, meaning), PATIENCE)


def await_answer(run: RunFolder, settings: Settings, message: str, patience: float) -> Line | None:
    """The answer to a message; None when who works on the run has not answered after `patience` seconds."""
    deadline = time.monotonic() + patience
    while (found := answer(run, message)) is None:
        if not is_locked(run.lock):
            answer_here(run, settings)
        elif time.monotonic() > deadline:
            return None
        else:
            time.sleep(GLANCE)
    return found


def answer_here(run: RunFolder, settings: Settings) -> None:
    """Answer what lies in the inbox. Somebody who took up the run this instant answers himself."""
    from tuneloop.graph.alone import answer_alone  # brings the graph, which an answer from elsewhere does not wait for

    try:
        answer_alone(run, settings)
    except SetupError:
        if not is_locked(run.lock):
            raise
