"""What a job's container is made of: mounts, walls and limits, as the daemon's interface wants them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tuneloop.core.files import digest
from tuneloop.core.job import Command
from tuneloop.sandboxes import pid_one
from tuneloop.sandboxes.bubblewrap import ETC, ETC_NETWORK, SCRATCH, already_there, both
from tuneloop.sandboxes.contained import PIPES
from tuneloop.sandboxes.image import PLACE

OWNER, FOLDER = "tuneloop.owner", "tuneloop.job"
PYTHON = os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]
SLACK = 64 << 20  # bytes from a job's limit to the container's wall: page cache, /tmp and the first process count, too
TASKS = 64  # threads that a process may have, on average
PROCESSES = 512  # where the command has no limit
ULIMIT = 1 << 14  # files, and threads of one user: less than any service has
SHARE = 512  # half of what a process outside gets of a busy CPU


def name_of(folder: Path) -> str:
    """The container of the job in `folder`; there is never a second one."""
    return f"tuneloop-{digest(str(folder.resolve()))}"


def owner() -> str:
    """Whose containers are ours: this user's of this machine."""
    return digest(os.uname().nodename, str(os.geteuid()))


def config(
    folder: Path, command: Command, image: str, user: tuple[int, int], podman: bool, whole: bool
) -> dict[str, Any]:
    """The body of `POST /containers/create`; a `whole` image has a system, an interpreter and the engine of its own."""
    return {
        "Image": image,
        "Cmd": [command.argv[0] if whole else PYTHON, "-I", "-S", f"{PLACE}/pid_one.py", f"{PLACE}/job"],
        "User": f"{user[0]}:{user[1]}",
        "WorkingDir": "/",
        "Labels": {OWNER: owner(), FOLDER: str(folder.resolve())},
        "HostConfig": {**WALLS, **limits(command, podman), **ways(command), "Mounts": mounts(folder, command, whole)},
    }


WALLS: dict[str, Any] = {
    "AutoRemove": True,
    "ReadonlyRootfs": True,
    "CapDrop": ["ALL"],
    "SecurityOpt": ["no-new-privileges", "label=disable"],
    "IpcMode": "private",
    "UsernsMode": "host",  # else files of a daemon that maps users would belong to strangers
    "LogConfig": {"Type": "none", "Config": {}},
    "RestartPolicy": {"Name": "no"},
    "Tmpfs": {"/tmp": f"rw,exec,nosuid,nodev,size={SCRATCH},mode=1777"},  # noqa: S108
    "ShmSize": SCRATCH,
    "CpuShares": SHARE,
}


def limits(command: Command, podman: bool) -> dict[str, Any]:
    """Walls behind the keeper's limits, for what is quicker than the keeper looks."""
    asked = command.limits
    given: dict[str, Any] = {"PidsLimit": TASKS * (asked.processes or PROCESSES)}
    if asked.memory is not None:
        wall = asked.memory + SLACK
        given |= {"Memory": wall, "MemorySwap": wall}
    if podman:  # its own defaults are more than it may give
        given["Ulimits"] = [{"Name": name, "Soft": ULIMIT, "Hard": ULIMIT} for name in ("nofile", "nproc")]
    return given


def ways(command: Command) -> dict[str, Any]:
    """Network and GPUs; generated code gets a GPU only where the command names one."""
    given: dict[str, Any] = {"NetworkMode": "host" if command.network else "none"}
    if wants_gpu(command) and Path("/dev/nvidiactl").exists():
        # All of them, as in every sandbox: CUDA_VISIBLE_DEVICES counts as it does outside.
        given["DeviceRequests"] = [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}]
    return given


def wants_gpu(command: Command) -> bool:
    """Hidden by an empty CUDA_VISIBLE_DEVICES."""
    return bool(command.env.get("CUDA_VISIBLE_DEVICES", "" if command.generated else "all"))


def mounts(folder: Path, command: Command, whole: bool) -> list[dict[str, Any]]:
    """The system's programs, our own first process, and the command's paths at the same place inside."""
    brought = programs(command.argv[0]) if whole else ()
    kinds = {} if whole else dict.fromkeys(system(command.network), True)
    kinds |= {
        path: True for path in both(command.read) if not Path(path).is_relative_to("/usr") and path not in brought
    }
    kinds |= dict.fromkeys(both(command.write), False)
    words = {path: "ro" if closed else "rw" for path, closed in kinds.items()}
    found = [bind(path, path, closed) for path, closed in kinds.items() if not already_there(path, words)]
    found += [bind(pid_one.__file__, f"{PLACE}/pid_one.py", True), bind(f"{folder}/{PIPES}", f"{PLACE}/job", True)]
    listed = both((*command.read, *command.write))
    for form in both([str(folder)]):  # a job does not see its own folder, unless it is listed
        if form not in listed and any(Path(form).is_relative_to(path) for path in listed):
            found.append({"Type": "tmpfs", "Target": form, "ReadOnly": True})
    return found


def bind(source: str, target: str, closed: bool) -> dict[str, Any]:
    """A path of this machine; what is mounted below it later stays outside."""
    source = os.path.realpath(source)
    return {
        "Type": "bind",
        "Source": source,
        "Target": target,
        "ReadOnly": closed,
        "BindOptions": {"Propagation": "rprivate"},
    }


def programs(python: str) -> tuple[str, ...]:
    """What an image of an engine brings along: the environment and its interpreter's folder."""
    return (str(Path(python).parent.parent), str(Path(os.path.realpath(python)).parent.parent))


def system(network: bool) -> list[str]:
    """Programs, libraries, our own interpreter; what the image has as a link is not mounted."""
    found = ["/usr", *(str(p) for p in map(Path, ("/bin", "/sbin", "/lib", "/lib32", "/lib64")) if p.is_dir())]
    found = [path for path in found if not Path(path).is_symlink()]
    if not Path(PYTHON).is_relative_to("/usr"):
        found.append(str(Path(PYTHON).parent.parent))
    return found + [path for path in ETC + (ETC_NETWORK if network else ()) if Path(path).exists()]
