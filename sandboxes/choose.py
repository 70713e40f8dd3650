"""Which sandbox a run uses: never silently a weaker one."""

from __future__ import annotations

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.job import Sandbox
from tuneloop.core.run_spec import SandboxKind
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox, probe_bubblewrap
from tuneloop.sandboxes.process import ProcessSandbox


def open_sandbox(kind: SandboxKind, allow_unsandboxed: bool = False) -> Sandbox:
    """`auto` is bubblewrap where it works, else docker: both are whole. Raises InvalidRequestError with the cure otherwise.

    With `allow_unsandboxed`, `auto` falls back to `process`, which then also runs generated code.
    """
    if kind == "process":
        return ProcessSandbox(allow_unsandboxed)
    if kind == "docker":
        return open_docker()
    problem = probe_bubblewrap()
    if problem is None:
        return BubblewrapSandbox()
    if kind == "bubblewrap":
        raise InvalidRequestError(f"no sandbox for generated code: {problem}; or say --sandbox docker")
    try:
        return open_docker()
    except InvalidRequestError as e:
        if allow_unsandboxed:
            return ProcessSandbox(allow_unsandboxed)
        raise InvalidRequestError(
            f"no sandbox for generated code: {problem}; nor Docker: {e}; "
            "or say --allow-unsandboxed to run it unprotected"
        ) from e


def check_sandbox(kind: SandboxKind, allow_unsandboxed: bool = False) -> None:
    """Refuse one that cannot carry a whole run: every run has generated code. Raises InvalidRequestError with the cure."""
    if kind == "process" and not allow_unsandboxed:
        raise InvalidRequestError(ProcessSandbox.refusal)
    open_sandbox(kind, allow_unsandboxed)


def open_docker() -> Sandbox:
    """Docker's or Podman's containers, what nobody will ask for swept away. Raises InvalidRequestError with the cure."""
    from tuneloop.sandboxes.docker import DockerSandbox
    from tuneloop.sandboxes.docker_daemon import find_daemon, probe_docker, probe_gpu, remove_orphans

    if problem := probe_docker() or probe_gpu():
        raise InvalidRequestError(problem)
    remove_orphans(find_daemon())
    return DockerSandbox()
