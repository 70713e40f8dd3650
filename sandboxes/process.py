"""A plain process: own session, empty environment, limits; for trusted code or on the user's word.

Not covered: the job reads and writes every file of the user, reaches the network, and sees other processes (also what
their environment holds). Where bubblewrap works, use that.
"""

from __future__ import annotations

from pathlib import Path

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.job import Command, Power
from tuneloop.sandboxes.local import LocalSandbox, WrappedCommand

REFUSAL = (
    "code written by a model or policy does not run in the process sandbox: "
    "install bubblewrap (`apt install bubblewrap`), or say --allow-unsandboxed to run it unprotected"
)


class ProcessSandbox(LocalSandbox):
    """Runs commands as they are; what a model or policy wrote only with `allow_generated`."""

    kind = "process"
    powers: frozenset[Power] = frozenset({"time", "memory", "processes", "disk", "log"})

    def __init__(self, allow_generated: bool = False) -> None:
        self.allow_generated = allow_generated

    def start(self, folder: Path, command: Command) -> None:
        """As every sandbox. Raises InvalidRequestError for generated code without the user's word."""
        if command.generated and not self.allow_generated:
            raise InvalidRequestError(REFUSAL)
        super().start(folder, command)

    def wrap(self, folder: Path, command: Command, lock: int) -> WrappedCommand:  # noqa: ARG002
        """Nothing around it: the descriptor of the lock is inherited."""
        return WrappedCommand(command.argv)
