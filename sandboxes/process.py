"""A plain process: own session, empty environment, limits; for trusted code or on the user's word.

Not covered: the job reads and writes every file of the user, reaches the network, and sees other processes (also what
their environment holds). Where bubblewrap works, use that.
"""

from __future__ import annotations

from pathlib import Path

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.job import Command, Power
from tuneloop.sandboxes.local import LocalSandbox, WrappedCommand


class ProcessSandbox(LocalSandbox):
    """Runs commands as they are; what a model or policy wrote only with `allow_unsandboxed`."""

    kind = "process"
    refusal = (
        "code written by a model or policy does not run in the process sandbox: "
        "install bubblewrap (`apt install bubblewrap`), or say --allow-unsandboxed to run it unprotected"
    )
    powers: frozenset[Power] = frozenset({"time", "memory", "processes", "disk", "log"})

    def __init__(self, allow_unsandboxed: bool = False) -> None:
        self.allow_unsandboxed = allow_unsandboxed

    def start(self, folder: Path, command: Command) -> None:
        """As every sandbox. Raises InvalidRequestError for generated code without the user's word."""
        if command.generated and not self.allow_unsandboxed:
            raise InvalidRequestError(self.refusal)
        super().start(folder, command)

    def wrap(self, folder: Path, command: Command, lock: int) -> WrappedCommand:  # noqa: ARG002
        """Nothing around it: the descriptor of the lock is inherited."""
        return WrappedCommand(command.argv)
