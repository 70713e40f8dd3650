"""bubblewrap: a job sees the system's programs, the paths it lists and nothing else; no network, no capabilities.

Not covered: the kernel's own attack surface (there is no system call filter), GPU drivers where a GPU is given, CPU
time. `/tmp` and `/dev/shm` are memory that the limits do not count; each is bounded by SCRATCH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import get_args

from tuneloop.core.errors import SetupError
from tuneloop.core.job import Command, Power
from tuneloop.sandboxes import seccomp
from tuneloop.sandboxes.local import LocalSandbox, Wrapped

SCRATCH = 1 << 30  # bytes of /tmp and of /dev/shm
ETC = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
ETC_NETWORK = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
)
GPU_DEVICES = ("nvidia*", "dxg", "kfd", "dri")
UNSHARE = [*(f"--unshare-{what}" for what in ("user", "pid", "ipc", "uts", "cgroup-try")), "--disable-userns"]
USER = ["--hostname", "sandbox", "--uid", "10001", "--gid", "10001", "--cap-drop", "ALL"]
IDENTITY = ["--die-with-parent", "--new-session", *USER]


class BubblewrapSandbox(LocalSandbox):
    """Every power there is, from unprivileged user namespaces."""

    kind = "bubblewrap"
    powers: frozenset[Power] = frozenset(get_args(Power))

    def wrap(self, folder: Path, command: Command, lock: int) -> Wrapped:
        """Let bwrap keep the lock's descriptor (`--sync-fd`) without handing it to the job."""
        program = shutil.which("bwrap")
        if program is None:
            raise SetupError(MISSING)
        options = [*UNSHARE, *IDENTITY, "--sync-fd", str(lock)]
        options += [] if command.network else ["--unshare-net"]
        options += [*system(command.network), *devices(command)]
        options += [*mounts(command), *hidden(folder, command), "--remount-ro", "/", "--remount-ro", "/dev"]
        handles = filters()
        options += [word for handle in handles for word in ("--seccomp", str(handle))]
        argv = (program, *options, "--chdir", command.cwd, "--", *command.argv)
        return Wrapped(argv, wrappers=2, refusal="bwrap: ", handles=handles)


def filters() -> tuple[int, ...]:
    """A descriptor of the filter of system calls; none on an architecture without one."""
    program = seccomp.program()
    return (seccomp.opened(program),) if program else ()


def system(network: bool) -> list[str]:
    """Programs, libraries, /proc and /tmp. Mounted first, so that binds below /tmp are not hidden."""
    options = ["--ro-bind", "/usr", "/usr"]
    for path in map(Path, ("/bin", "/sbin", "/lib", "/lib32", "/lib64")):
        if path.is_symlink():
            options += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            options += ["--ro-bind", str(path), str(path)]
    for name in ETC + (ETC_NETWORK if network else ()):
        options += ["--ro-bind-try", os.path.realpath(name), name]
    # Files of /proc/sys belong to root: started by root, bwrap would leave core_pattern and others writable.
    options += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
    return [*options, "--size", str(SCRATCH), "--tmpfs", "/tmp"]  # noqa: S108


def devices(command: Command) -> list[str]:
    """null, zero, random, shared memory; GPUs unless hidden by an empty CUDA_VISIBLE_DEVICES.

    Generated code gets a GPU only where the command names one.
    """
    options = ["--dev", "/dev", "--size", str(SCRATCH), "--tmpfs", "/dev/shm"]  # noqa: S108
    if not command.env.get("CUDA_VISIBLE_DEVICES", "" if command.generated else "all"):
        return options
    found = [path for pattern in GPU_DEVICES for path in sorted(Path("/dev").glob(pattern))]
    for path in found:
        options += ["--dev-bind", str(path), str(path)]
    return [*options, "--ro-bind", "/sys", "/sys"] if found else options


def mounts(command: Command) -> list[str]:
    """The command's paths at the same place inside; what a path links to is there as well."""
    kinds = {path: "--ro-bind" for path in both(command.read) if not Path(path).is_relative_to("/usr")}
    kinds |= dict.fromkeys(both(command.write), "--bind")
    # Outer folders first: a later mount of a parent would hide an earlier one of its child.
    ordered = sorted(kinds.items(), key=lambda pair: pair[0].count("/"))
    ordered = [(path, kind) for path, kind in ordered if not already_there(path, kinds)]
    return [word for path, kind in ordered for word in (kind, path, path)]


def already_there(path: str, kinds: dict[str, str]) -> bool:
    """A folder around `path` brings it along; a link in there cannot be mounted on, what it leads to is."""
    around = [outer for outer in kinds if outer != path and Path(path).is_relative_to(outer)]
    nearest = max(around, key=len, default=None)
    return nearest is not None and (kinds[nearest] == kinds[path] or path != os.path.realpath(path))


def both(paths: Iterable[str]) -> list[str]:
    """Each path as it is written and as it resolves."""
    return [form for path in paths for form in dict.fromkeys((os.path.normpath(path), os.path.realpath(path)))]


def hidden(folder: Path, command: Command) -> list[str]:
    """A job does not see its own folder, unless it is listed."""
    forms = both([str(folder)])
    listed = both((*command.read, *command.write))
    inside = [form for form in forms if any(Path(form).is_relative_to(path) for path in listed)]
    return [word for form in inside if form not in listed for word in ("--tmpfs", form, "--remount-ro", form)]


MISSING = "bubblewrap is not installed: `apt install bubblewrap` (Debian, Ubuntu) or `dnf install bubblewrap`"


@cache
def probe_bubblewrap() -> str | None:
    """Why bubblewrap cannot be used here, with the cure; None when it works. Runs it once for real."""
    program = shutil.which("bwrap")
    if program is None:
        return MISSING
    argv = [program, *UNSHARE, "--unshare-net", *IDENTITY, *system(False), "--dev", "/dev", "--", "/usr/bin/env"]
    try:
        tried = subprocess.run(argv, env={}, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        return f"{program} does not run: {e}"
    if tried.returncode == 0:
        return None
    return f"{program}: {tried.stderr.strip() or 'failed without a word'}; {cure(tried.stderr)}"


def cure(problem: str) -> str:
    """What helps against a refusal of bwrap."""
    if "nknown option" in problem:
        return "right is bubblewrap 0.8 or newer"
    return (
        "right is a kernel that allows unprivileged user namespaces "
        "(`sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000`; "
        "on Ubuntu an AppArmor profile for bwrap; in Docker `--security-opt seccomp=unconfined`)"
    )
