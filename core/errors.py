"""The three kinds of error: invalid requests, bad recipes, and infrastructure failures."""

from __future__ import annotations


class InvalidRequestError(Exception):
    """The user asked for something impossible: one line that says what, where and what would be right. Exit code 2."""


class DamagedFileError(InvalidRequestError, ValueError):
    """A stored file is not what was written there: the line names the file and the cure. Exit code 2.

    It is a ValueError too: a reader that can do without the file catches it as one. `reason`: what is wrong, alone.
    """

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.reason = reason or text


class RecipeError(Exception):
    """A script, config or data set of an experiment is bad: becomes a value on the experiment, never the end of a run."""

    def __init__(self, text: str, *, culprit: str = "") -> None:
        """`culprit` is script, data, config or "" when unknown."""
        super().__init__(text)
        self.culprit = culprit


class LimitReachedError(RecipeError):
    """The next step would exceed a limit of the run: an interactive user is asked, otherwise the run finishes."""

    def __init__(self, text: str) -> None:
        super().__init__(text, culprit="environment")


class InfrastructureError(Exception):
    """Infrastructure failed (disk full, engine missing, provider down): the run pauses and can be resumed."""


class FencedError(InfrastructureError):
    """Another process has taken the run over: this one must write nothing more."""


class PausedError(Exception):
    """A pause was requested; everything is on disk."""


class ApprovalNeededError(PausedError):
    """The run waits for a decision by a person; `question`: its text, "" when it is stored in the run's files."""

    def __init__(self, reason: str, question: str = "") -> None:
        super().__init__(reason)
        self.question = question


class ToolError(Exception):
    """A tool refused: a sentence for the model that says what was wrong and what would be right."""
