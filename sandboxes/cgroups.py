"""A job's memory and processes in the kernel's hands, where this user may make cgroups; elsewhere the supervisor watches alone.

Version 1: below our own place in the hierarchies `memory` and `pids`. Version 2: in a tree that was delegated to us, as
`systemd-run --user --scope -p Delegate=yes` does; our own processes move into its leaf `tuneloop` then.
Standard library only, as all of the supervisor.
"""

# pathlib would be a third of a supervisor's start.
# ruff: noqa: PTH102, PTH106, PTH110, PTH119, PTH120, PTH123, PTH208

from __future__ import annotations

import os
import time
from contextlib import suppress

PREFIX, LEAF = "tuneloop-", "tuneloop"
TASKS = 1024 + 32 * (os.cpu_count() or 1)  # threads that a job may have besides its processes
TRIES, PAUSE = 50, 0.002  # a group is busy until its last process is reaped
MEMORY = {1: ("memory.limit_in_bytes", "memory.oom_control"), 2: ("memory.max", "memory.events")}
NO_SWAP = {1: "memory.memsw.limit_in_bytes", 2: "memory.swap.max"}
ROOT = "/"


class CgroupLimits:
    """The folders that hold one job, by controller; each may be missing."""

    def __init__(self, memory: int | None, processes: int | None, place: str = ROOT) -> None:
        self.version, parents = find_base(place)
        self.folders: dict[str, str] = {}
        remove_empty(parents)
        name = f"{PREFIX}{os.getpid()}"
        for controller, parent in parents.items():
            if (memory if controller == "memory" else processes) is None:
                continue
            with suppress(OSError):
                folder = f"{parent}/{name}"
                with suppress(FileExistsError):
                    os.mkdir(folder)
                self.folders[controller] = folder
        with suppress(OSError):
            self.limit(memory, processes)

    def limit(self, memory: int | None, processes: int | None) -> None:
        """Bytes of all together, also of caches and files in memory; threads count as processes. Raises OSError."""
        if "pids" in self.folders and processes is not None:
            write_control(f"{self.folders['pids']}/pids.max", str(processes + TASKS))
        if "memory" in self.folders and memory is not None:
            write_control(f"{self.folders['memory']}/{MEMORY[self.version][0]}", str(memory))
            with suppress(OSError):  # where swap is not counted there is nothing to say
                write_control(
                    f"{self.folders['memory']}/{NO_SWAP[self.version]}", str(memory if self.version == 1 else 0)
                )

    def add(self, pid: int = 0) -> None:
        """Take a process in, and what it will start; 0: the caller."""
        for folder in set(self.folders.values()):
            with suppress(OSError):
                write_control(f"{folder}/cgroup.procs", str(pid))

    def exceeded_limit(self) -> str:
        """Which limit the kernel had to enforce, "" for none."""
        if "memory" in self.folders and read_value(f"{self.folders['memory']}/{MEMORY[self.version][1]}", "oom_kill"):
            return "memory"
        if "pids" in self.folders and read_value(f"{self.folders['pids']}/pids.events", "max"):
            return "processes"
        return ""

    def block_forks(self) -> None:
        """Nothing new is started in here: what is left can be ended faster than it multiplies."""
        if "pids" in self.folders:
            with suppress(OSError):
                write_control(f"{self.folders['pids']}/pids.max", "0")

    def remove(self) -> None:
        """Once nothing is in it; what stays busy is removed by a later job's supervisor."""
        for folder in set(self.folders.values()):
            remove(folder)


def find_base(place: str = ROOT) -> tuple[int, dict[str, str]]:
    """Version, and the folder in which to make a job's, by controller; {} where we may make none."""
    own = dict(line.split(":", 2)[1:] for line in read_lines(f"{place}proc/self/cgroup"))
    mounts = [line.split() for line in read_lines(f"{place}proc/mounts")]
    parents = {}
    for _, at, kind, options, *_ in mounts:
        for controller in ("memory", "pids"):
            if kind == "cgroup" and controller in options.split(","):
                paths = (path for names, path in own.items() if controller in names.split(","))
                parents[controller] = at + next(paths, "").rstrip("/")
    if parents:
        return 1, {controller: path for controller, path in parents.items() if os.access(path, os.W_OK)}
    unified = next((at for _, at, kind, *_ in mounts if kind == "cgroup2"), None)
    if unified is None or "" not in own:
        return 2, {}
    home = unified + own[""].rstrip("/")
    base = os.path.dirname(home) if os.path.basename(home) == LEAF else home
    try:
        return 2, dict.fromkeys(("memory", "pids"), base) if has_controllers(base) else {}
    except OSError:
        return 2, {}


def has_controllers(base: str) -> bool:
    """Whether folders below `base` have both controllers, once they are switched on. Raises OSError."""
    wanted = {"memory", "pids"}
    if wanted <= set(" ".join(read_lines(f"{base}/cgroup.subtree_control")).split()):
        return os.access(base, os.W_OK)
    if not wanted <= set(" ".join(read_lines(f"{base}/cgroup.controllers")).split()) or not is_delegated(base):
        return False
    leaf = f"{base}/{LEAF}"
    with suppress(FileExistsError):
        os.mkdir(leaf)
    for pid in read_lines(f"{base}/cgroup.procs"):  # a folder with processes of its own passes no controller on
        with suppress(ProcessLookupError):
            write_control(f"{leaf}/cgroup.procs", pid.strip())
    write_control(f"{base}/cgroup.subtree_control", "+memory +pids")
    return True


def is_delegated(base: str) -> bool:
    """Whether systemd gave this tree away."""
    for name in ("user.delegate", "trusted.delegate"):
        with suppress(OSError):
            if os.getxattr(base, name) == b"1":
                return True
    return False


def remove_orphaned(supervisor: int) -> None:
    """Remove the group of a supervisor that was killed."""
    for parent in set(find_base()[1].values()):
        remove(f"{parent}/{PREFIX}{supervisor}")


def remove(folder: str) -> None:
    """Wait a moment until a group is empty, and remove it."""
    for _ in range(TRIES):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(PAUSE)
        else:
            return


def remove_empty(parents: dict[str, str]) -> None:
    """Remove empty groups whose supervisor is gone."""
    for parent in set(parents.values()):
        with suppress(OSError):
            for name in os.listdir(parent):
                if name.startswith(PREFIX) and not os.path.exists(f"/proc/{name[len(PREFIX) :]}"):
                    with suppress(OSError):
                        os.rmdir(f"{parent}/{name}")


def read_lines(path: str) -> list[str]:
    """Of a text file, without their ends; [] when it cannot be read."""
    try:
        with open(path) as f:
            return f.read().splitlines()
    except OSError:
        return []


def read_value(path: str, name: str) -> int:
    """The value after `name` in a file of such pairs, 0 when it is not there."""
    return next((int(line.split()[1]) for line in read_lines(path) if line.startswith(f"{name} ")), 0)


def write_control(path: str, text: str) -> None:
    """At once, as the kernel wants it. Raises OSError."""
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)
