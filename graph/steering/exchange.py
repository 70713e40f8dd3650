"""Send a message to a run and wait for its answer, from the process that works on it, else from this one."""

from __future__ import annotations

import time
from collections.abc import Callable

from tuneloop.core.commands import find_command
from tuneloop.core.directive import Line, Pause
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_lease import is_worked_on
from tuneloop.core.settings import Settings
from tuneloop.tools.runs.messages import acknowledgement, answer, is_at_work, say
from tuneloop.tools.runs.signature import check_signed

TIMEOUT = 60.0  # seconds: a run reads between two steps, at once while a job runs
MODEL_TIMEOUT = 120.0  # additional seconds when a chat model is called
INTERVAL = 0.05


def tell(run: RunFolder, settings: Settings, text: str, show: Callable[[Line], None]) -> Line | None:
    """Send it and wait for the answer; None when it takes too long. `show` gets the acknowledgement before."""
    if isinstance(find_command(text), Pause):
        is_at_work(run)  # a process that takes up the run this moment is the one to pause
    return await_answer(run, settings, say(run, text), TIMEOUT, show)


def await_answer(
    run: RunFolder, settings: Settings, message: str, patience: float, show: Callable[[Line], None] | None = None
) -> Line | None:
    """The answer to a message; None when the process that works on the run has not answered after `patience` seconds.

    With `show` an acknowledgement is shown, and the chat model behind it waited for. Raises InvalidRequestError for a run
    of another home.
    """
    check_signed(run)
    deadline = time.monotonic() + patience
    while (found := answer(run, message)) is None:
        if show is not None and (line := acknowledgement(run, message)) is not None:
            show(line)
            show, deadline = None, time.monotonic() + MODEL_TIMEOUT
        if not is_worked_on(run.root):
            answer_here(run, settings)
        elif time.monotonic() > deadline:
            return None
        else:
            time.sleep(INTERVAL)
    return found


def answer_here(run: RunFolder, settings: Settings) -> None:
    """Answer what lies in the inbox. A process that took up the run this moment answers itself."""
    from tuneloop.graph.steering.inbox_listener import answer_offline  # takes 0.3 s; rarely needed

    try:
        answer_offline(run, settings)
    except InvalidRequestError:
        if not is_worked_on(run.root):
            raise
