"""docker: a job in a container of Docker or Podman that sees the system's programs, the paths it lists and nothing else.

No network, no capabilities, no new privileges, the daemon's filter of system calls and our own (`seccomp.py`), a read-only
root, limits on memory, processes and /tmp. Paths are the same inside and outside, so the daemon has to run on this
machine. Jobs are of the caller's user; where root starts them, of a user of their own (`owner.py`), to whom their writable
folders are handed over. Without an image of its own an engine is mounted read-only, with /usr, as bubblewrap does it.

Not covered: the kernel's own attack surface, GPU drivers where a GPU is given. The daemon is root: who may ask it for
containers could do anything on this machine; jobs cannot reach it. Disks mounted below a listed folder come along, and
before Docker 25 they are writable when the folder is not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from tuneloop.core.files import read_field, read_model
from tuneloop.core.job import Command, JobStatus, Power
from tuneloop.core.locks import try_lock
from tuneloop.sandboxes.container import container_config, container_name
from tuneloop.sandboxes.container_supervisor import PIPES
from tuneloop.sandboxes.docker_daemon import find_daemon, need_image, ready_image
from tuneloop.sandboxes.job_user import check_readable, chown_tree
from tuneloop.sandboxes.local import LocalSandbox, WrappedCommand, supervise
from tuneloop.sandboxes.seccomp import build_filter

IMAGE = "image.json"  # in an engine's folder: the image that was made of it


class DockerSandbox(LocalSandbox):
    """Every power there is, from a daemon."""

    kind = "docker"
    powers: frozenset[Power] = frozenset(get_args(Power))

    def __init__(self, image: str = "") -> None:
        """`image` holds the programs of every job; without one the engine's own image does, or this machine."""
        self.image = image

    def wrap(self, folder: Path, command: Command, lock: int) -> WrappedCommand:  # noqa: ARG002
        """The container's plan; its supervisor creates it. Raises InvalidRequestError, InfrastructureError."""
        return plan_container(folder, command, self.image)

    def poll(self, folder: Path, *, elsewhere: bool = True) -> JobStatus:
        """From the folder; a container that has outlived its supervisor gets another one."""
        status = super().poll(folder, elsewhere=elsewhere)
        if status.state == "lost" and (folder / PIPES).exists():
            adopt_container(folder)
            return super().poll(folder, elsewhere=elsewhere)
        return status


def plan_container(folder: Path, command: Command, image: str = "", take_up: bool = False) -> WrappedCommand:
    """How the supervisor finds or makes the container of the job in `folder`. Raises InvalidRequestError, InfrastructureError."""
    access = find_daemon()
    body: dict[str, Any] = {}
    if not take_up:
        chown_tree(command.write, access.user)
        check_readable(command.read, access.user)
        own = image or engine_image_of(command.argv[0])
        body = container_config(
            folder, command, own or ready_image(access), access.user, access.podman, whole=bool(own)
        )
    plan = {
        "socket": access.socket,
        "api": access.api,
        "name": container_name(folder),
        "user": access.user,
        "config": body,
    }
    calls = build_filter().hex()
    return WrappedCommand(command.argv, container={**plan, "filter": calls, "take_up": take_up})


def adopt_container(folder: Path) -> None:
    """Start a new supervisor for a container that lost its own; of concurrent attempts one succeeds."""
    with try_lock(folder / "lock") as lock:
        if lock is not None and not (folder / "exit.json").exists():
            command = read_model(folder / "command.json", Command)
            supervise(folder, command, plan_container(folder, command, take_up=True), lock)


def engine_image_of(program: str) -> str:
    """The image that was made of the engine which `program` belongs to, "" where none was. Raises InvalidRequestError."""
    place = Path(program).parent.parent / IMAGE
    if not place.is_file():
        return ""
    image: str = read_field(place, "image", str)
    need_image(image, f"`tuneloop engines build --docker`, or to remove {place}")
    return image
