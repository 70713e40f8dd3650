"""docker: a job in a container of Docker or Podman that sees the system's programs, the paths it lists and nothing else.

No network, no capabilities, no new privileges, the daemon's own filter of system calls, a read-only root, walls for
memory, processes and /tmp. Paths are the same inside and outside, so the daemon has to run on this machine. Jobs are of
the caller's user; where root starts them, of a user of their own (`owner.py`), to whom their writable folders are handed
over. Containers have no programs of their own: /usr and the engine's folder are mounted read-only, as bubblewrap does it.

Not covered: the kernel's own attack surface, GPU drivers where a GPU is given. The daemon is root: who may ask it for
containers could do anything on this machine; jobs cannot reach it. Disks mounted below a listed folder come along, and
before Docker 25 they are writable when the folder is not.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from tuneloop.core.files import read_json
from tuneloop.core.job import Command, JobStatus, Power
from tuneloop.core.locks import locked
from tuneloop.sandboxes.contained import PIPES
from tuneloop.sandboxes.container import config, name_of
from tuneloop.sandboxes.daemon import find_daemon, ready_image
from tuneloop.sandboxes.local import LocalSandbox, Wrapped, supervise
from tuneloop.sandboxes.owner import check_readable, hand_over


class DockerSandbox(LocalSandbox):
    """Every power there is, from a daemon."""

    kind = "docker"
    powers: frozenset[Power] = frozenset(get_args(Power))

    def wrap(self, folder: Path, command: Command, lock: int) -> Wrapped:  # noqa: ARG002
        """The container's plan; its keeper creates it. Raises SetupError, WorldError."""
        return planned(folder, command, take_up=False)

    def poll(self, folder: Path) -> JobStatus:
        """From the folder; a container that has outlived its keeper gets another one."""
        status = super().poll(folder)
        if status.state == "lost" and (folder / PIPES).exists():
            take_up(folder)
            return super().poll(folder)
        return status


def planned(folder: Path, command: Command, take_up: bool) -> Wrapped:
    """How the keeper finds or makes the container of the job in `folder`."""
    access = find_daemon()
    if not take_up:
        hand_over(command.write, access.user)
        check_readable(command.read, access.user)
    body = config(folder, command, ready_image(access), access.user, access.podman)
    plan = {"socket": access.socket, "api": access.api, "name": name_of(folder), "user": access.user, "config": body}
    return Wrapped(command.argv, container={**plan, "take_up": take_up})


def take_up(folder: Path) -> None:
    """Put another keeper to a container that has lost its own; of several who try, one does."""
    with locked(folder / "lock") as lock:
        if lock is not None and not (folder / "exit.json").exists():
            command = Command.model_validate(read_json(folder / "command.json"))
            supervise(folder, command, planned(folder, command, take_up=True), lock)
