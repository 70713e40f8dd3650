"""Which sandbox a run uses: never silently a weaker one."""

from __future__ import annotations

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.job import Sandbox
from tuneloop.core.run_spec import ExecutorKind, SandboxKind
from tuneloop.core.setting_values import Unsandboxed
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox, probe_bubblewrap
from tuneloop.sandboxes.landlock import open_landlock
from tuneloop.sandboxes.local import LocalSandbox
from tuneloop.sandboxes.process import ProcessSandbox

BEGUN_UNPROTECTED = (
    "this run was begun without a sandbox, and one works here: TUNELOOP_UNSANDBOXED=always in the environment goes on "
    "without, or begin a new run"
)


def open_sandbox(kind: SandboxKind) -> Sandbox:
    """`auto` is what works first of bubblewrap, landlock and docker; `process` refuses generated code.

    Raises InvalidRequestError with the cure.
    """
    if kind == "process":
        return ProcessSandbox()
    if kind == "docker":
        return open_docker()
    if kind == "landlock":
        return open_landlock()
    problem = probe_bubblewrap()
    if problem is None:
        return BubblewrapSandbox()
    if kind == "bubblewrap":
        raise InvalidRequestError(f"no sandbox for generated code: {problem}; or say --sandbox landlock or docker")
    problems = [problem]
    for name, opened in (("landlock", open_landlock), ("docker", open_docker)):
        try:
            return opened()
        except InvalidRequestError as e:
            problems.append(f"nor {name}: {e}")
    raise InvalidRequestError(
        f"no sandbox for generated code: {'; '.join(problems)}; or say --allow-unsandboxed to run it unprotected"
    )


def open_run_sandbox(kind: SandboxKind, unsandboxed: Unsandboxed) -> Sandbox:
    """The sandbox of a whole run, generated code included.

    Args:
        kind: What the run's spec or setup says. `process` there is a record, never a permission.
        unsandboxed: What the owner of this process allows.

    Raises:
        InvalidRequestError: No sandbox works, or the run was begun without one and the owner does not allow that now.
    """
    if kind not in ("auto", "process"):
        return open_sandbox(kind)
    if unsandboxed == "always":
        return ProcessSandbox(allow_generated=True)
    try:
        found = open_sandbox("auto")
    except InvalidRequestError:
        if unsandboxed == "fallback":
            return ProcessSandbox(allow_generated=True)
        raise
    if kind == "process":
        raise InvalidRequestError(BEGUN_UNPROTECTED)
    return found


def open_executor(executor: ExecutorKind, sandbox: Sandbox, settings: Settings) -> Sandbox:
    """The same sandbox where the run's jobs run: on this machine, or on nodes of a cluster.

    Args:
        executor: What the run's spec says.
        sandbox: How a job is shut in.
        settings: What jobs ask the cluster for, and where it is.

    Raises:
        InvalidRequestError: The sandbox does not run there, or a setting is wrong.
    """
    if executor == "local":
        return sandbox
    from tuneloop.sandboxes.ray import RaySandbox
    from tuneloop.sandboxes.slurm import SlurmSandbox

    if not isinstance(sandbox, LocalSandbox) or sandbox.kind == "docker":
        raise InvalidRequestError(
            f"--executor {executor}: sandbox {sandbox.kind} does not run on nodes; right is bubblewrap or landlock"
        )
    if executor == "slurm":
        return SlurmSandbox(sandbox, settings.slurm_options, settings.job_memory, settings.slurm_container)
    token = settings.ray_token.get_secret_value() if settings.ray_token else ""
    return RaySandbox(sandbox, settings.ray_address, token, settings.ray_resources, settings.job_memory)


def open_docker() -> Sandbox:
    """Docker's or Podman's containers, what nobody will ask for swept away. Raises InvalidRequestError with the cure."""
    from tuneloop.sandboxes.docker import DockerSandbox
    from tuneloop.sandboxes.docker_daemon import find_daemon, probe_docker, probe_gpu, remove_orphans

    if problem := probe_docker() or probe_gpu():
        raise InvalidRequestError(problem)
    remove_orphans(find_daemon())
    return DockerSandbox()
