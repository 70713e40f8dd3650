"""Which sandbox a run uses: never silently a weaker one."""

from __future__ import annotations

from typing import Literal

from tuneloop.core.errors import SetupError
from tuneloop.core.job import Sandbox
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox, probe_bubblewrap
from tuneloop.sandboxes.process import ProcessSandbox


def open_sandbox(kind: Literal["auto", "bubblewrap", "process"], allow_unsandboxed: bool = False) -> Sandbox:
    """`auto` is bubblewrap where it works. Raises SetupError with the cure where it does not.

    With `allow_unsandboxed`, `auto` falls back to `process`, which then also runs generated code.
    """
    if kind == "process":
        return ProcessSandbox(allow_unsandboxed)
    problem = probe_bubblewrap()
    if problem is None:
        return BubblewrapSandbox()
    if kind == "auto" and allow_unsandboxed:
        return ProcessSandbox(allow_unsandboxed)
    raise SetupError(f"no sandbox for generated code: {problem}; or say --allow-unsandboxed to run it unprotected")
