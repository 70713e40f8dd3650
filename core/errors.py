"""The three kinds of error: the user's, the recipe's and the world's."""

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
    """What comes next does not fit into a limit of the run: someone who is there is asked, else the run comes to its end."""

    def __init__(self, text: str) -> None:
        super().__init__(text, culprit="environment")


class InfrastructureError(Exception):
    """Disk full, engine gone, provider down: the run pauses and can be resumed."""


class PausedError(Exception):
    """Someone asked the run to stop here; everything is on disk."""


class ApprovalNeededError(PausedError):
    """A person is asked whether and how the run goes on; `question`: in words, "" where it lies in the run's files."""

    def __init__(self, reason: str, question: str = "") -> None:
        super().__init__(reason)
        self.question = question


class ToolError(Exception):
    """A tool refused: a sentence for the model that says what was wrong and what would be right."""
