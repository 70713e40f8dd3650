"""Talk with a run from any process: a message goes into its inbox, the answer is read from its conversation."""

from __future__ import annotations

from tuneloop.core.directive import Line, Meaning
from tuneloop.core.directive_log import read_conversation
from tuneloop.core.layout import RunFolder
from tuneloop.tools.runs.inbox import put


def say(run: RunFolder, text: str, meaning: Meaning | None = None) -> str:
    """Leave a message; its id. With a `meaning` nobody has to understand the text."""
    known = {} if meaning is None else {"meaning": meaning.model_dump_json()}
    return put(run.inbox, do="say", text=text, **known).stem


def answer(run: RunFolder, message: str) -> Line | None:
    """What the run answered; None: nothing yet."""
    return next((line for line in read_conversation(run.conversation) if line.answers == message), None)


def acknowledgement(run: RunFolder, message: str) -> Line | None:
    """That the run has heard it and asks a chat model; None: nothing yet, or it was answered at once."""
    return next((line for line in read_conversation(run.conversation) if line.heard == message), None)
