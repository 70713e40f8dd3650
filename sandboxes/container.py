"""What a job's container is made of: mounts, confinement and limits, as the daemon's API wants them."""

from __future__ import annotations

import io
import os
import sys
import tarfile
from pathlib import Path
from typing import Any

from tuneloop.core.files import digest
from tuneloop.core.job import Command
from tuneloop.sandboxes import container_init
from tuneloop.sandboxes.bubblewrap import ETC, ETC_NETWORK, SCRATCH, is_mounted, with_resolved
from tuneloop.sandboxes.container_supervisor import PIPES

# The image of jobs whose programs are this machine's: folders and links to mount on, nothing else.

PLACE = "/.tuneloop"  # where the first process and its pipes are mounted
FOLDERS = ("dev", "etc", "proc", "sys", "tmp", "usr", PLACE[1:])
LINKS = ("bin", "lib", "lib32", "lib64", "sbin")
REPOSITORY = "tuneloop-host"


def host_image() -> tuple[str, bytes]:
    """Name and content; the same bytes everywhere, so that the name says what is in it."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name in FOLDERS:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(entry)
        for name in LINKS:
            path = Path("/", name)
            if path.is_symlink():
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
                tar.addfile(entry)
    data = content.getvalue()
    return f"{REPOSITORY}:{digest(data)}", data


OWNER, FOLDER = "tuneloop.owner", "tuneloop.job"
PYTHON = os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]
SLACK = 64 << 20  # bytes from a job's limit to the container's wall: page cache, /tmp and the first process count, too
TASKS = 64  # threads that a process may have, on average
PROCESSES = 512  # where the command has no limit
ULIMIT = 1 << 14  # files, and threads of one user: less than any service has
SHARE = 512  # half of what a process outside gets of a busy CPU


def container_name(folder: Path) -> str:
    """The container of the job in `folder`; there is never a second one."""
    return f"tuneloop-{digest(str(folder.resolve()))}"


def owner_label() -> str:
    """Whose containers are ours: this user's of this machine."""
    return digest(os.uname().nodename, str(os.geteuid()))


def container_config(
    folder: Path, command: Command, image: str, user: tuple[int, int], podman: bool, whole: bool
) -> dict[str, Any]:
    """The body of `POST /containers/create`; a `whole` image has a system, an interpreter and the engine of its own."""
    return {
        "Image": image,
        "Cmd": [command.argv[0] if whole else PYTHON, "-I", "-S", f"{PLACE}/container_init.py", f"{PLACE}/job"],
        "User": f"{user[0]}:{user[1]}",
        "WorkingDir": "/",
        "Labels": {OWNER: owner_label(), FOLDER: str(folder.resolve())},
        "HostConfig": {
            **HARDENING,
            **host_limits(command, podman),
            **network_and_gpus(command),
            "Mounts": container_mounts(folder, command, whole),
        },
    }


HARDENING: dict[str, Any] = {
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


def host_limits(command: Command, podman: bool) -> dict[str, Any]:
    """Walls behind the supervisor's limits, for what is quicker than the supervisor looks."""
    asked = command.limits
    given: dict[str, Any] = {"PidsLimit": TASKS * (asked.processes or PROCESSES)}
    if asked.memory is not None:
        wall = asked.memory + SLACK
        given |= {"Memory": wall, "MemorySwap": wall}
    if podman:  # its own defaults are more than it may give
        given["Ulimits"] = [{"Name": name, "Soft": ULIMIT, "Hard": ULIMIT} for name in ("nofile", "nproc")]
    return given


def network_and_gpus(command: Command) -> dict[str, Any]:
    """Network and GPUs; generated code gets a GPU only where the command names one."""
    given: dict[str, Any] = {"NetworkMode": "host" if command.network else "none"}
    if wants_gpu(command) and Path("/dev/nvidiactl").exists():
        # All of them, as in every sandbox: CUDA_VISIBLE_DEVICES counts as it does outside.
        given["DeviceRequests"] = [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}]
    return given


def wants_gpu(command: Command) -> bool:
    """Hidden by an empty CUDA_VISIBLE_DEVICES."""
    return bool(command.env.get("CUDA_VISIBLE_DEVICES", "" if command.generated else "all"))


def container_mounts(folder: Path, command: Command, whole: bool) -> list[dict[str, Any]]:
    """The system's programs, our own first process, and the command's paths at the same place inside."""
    brought = engine_paths(command.argv[0]) if whole else ()
    kinds = {} if whole else dict.fromkeys(system_binds(command.network), True)
    kinds |= {
        path: True
        for path in with_resolved(command.read)
        if not Path(path).is_relative_to("/usr") and path not in brought
    }
    kinds |= dict.fromkeys(with_resolved(command.write), False)
    words = {path: "ro" if closed else "rw" for path, closed in kinds.items()}
    found = [bind_mount(path, path, closed) for path, closed in kinds.items() if not is_mounted(path, words)]
    found += [
        bind_mount(container_init.__file__, f"{PLACE}/container_init.py", True),
        bind_mount(f"{folder}/{PIPES}", f"{PLACE}/job", True),
    ]
    listed = with_resolved((*command.read, *command.write))
    for form in with_resolved([str(folder)]):  # a job does not see its own folder, unless it is listed
        if form not in listed and any(Path(form).is_relative_to(path) for path in listed):
            found.append({"Type": "tmpfs", "Target": form, "ReadOnly": True})
    return found


def bind_mount(source: str, target: str, closed: bool) -> dict[str, Any]:
    """A path of this machine; what is mounted below it later stays outside."""
    source = os.path.realpath(source)
    return {
        "Type": "bind",
        "Source": source,
        "Target": target,
        "ReadOnly": closed,
        "BindOptions": {"Propagation": "rprivate"},
    }


def engine_paths(python: str) -> tuple[str, ...]:
    """What an image of an engine brings along: the environment and its interpreter's folder."""
    return (str(Path(python).parent.parent), str(Path(os.path.realpath(python)).parent.parent))


def system_binds(network: bool) -> list[str]:
    """Programs, libraries, our own interpreter; what the image has as a link is not mounted."""
    found = ["/usr", *(str(p) for p in map(Path, ("/bin", "/sbin", "/lib", "/lib32", "/lib64")) if p.is_dir())]
    found = [path for path in found if not Path(path).is_symlink()]
    if not Path(PYTHON).is_relative_to("/usr"):
        found.append(str(Path(PYTHON).parent.parent))
    return found + [path for path in ETC + (ETC_NETWORK if network else ()) if Path(path).exists()]
