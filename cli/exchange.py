"""Say something to a run and have its answer: from who works on it, or from here when nobody does."""

from __future__ import annotations

import time
from collections.abc import Callable

from tuneloop.cli.slash import parsed
from tuneloop.core.directive import Line
from tuneloop.core.errors import SetupError
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import is_locked
from tuneloop.core.settings import Settings
from tuneloop.tools.runs.talking import acknowledgement, answer, say

PATIENCE = 60.0  # seconds: whoever works on the run reads between two steps, at once while a job runs
GLANCE = 0.05


THOUGHT = 120.0  # seconds more, where a chat model is asked


def tell(run: RunFolder, settings: Settings, text: str, show: Callable[[Line], None]) -> Line | None:
    """Say it, slash or not, and wait for the answer; None when it takes too long. `show` gets the acknowledgement before."""
    said, meaning = parsed(text)
    return await_answer(run, settings, say(run, said, meaning), PATIENCE, show)


def await_answer(
    run: RunFolder, settings: Settings, message: str, patience: float, show: Callable[[Line], None] | None = None
) -> Line | None:
    """The answer to a message; None when who works on the run has not answered after `patience` seconds.

    With `show` an acknowledgement is shown, and the model behind it waited for.
    """
    deadline = time.monotonic() + patience
    while (found := answer(run, message)) is None:
        if show is not None and (heard := acknowledgement(run, message)) is not None:
            show(heard)
            show, deadline = None, time.monotonic() + THOUGHT
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
