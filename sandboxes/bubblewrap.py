"""bubblewrap: a job sees the system's programs, the paths it lists and nothing else; no network, no capabilities.

Namespaces for users, processes, mounts, network, System V, names and cgroups; a filter of system calls (`seccomp.py`);
memory and tasks in the kernel's hands where cgroups may be made (`cgroups.py`). Landlock is not put on a job's files: the
mounts say the same, and it could only be done by one more program inside, which costs a third of a start. A job with a
network shares the machine's, so there Landlock keeps its signals and abstract sockets to itself.

Not covered: the kernel's own attack surface beyond the filter, GPU drivers where a GPU is given, CPU time, the content of
what a job may write. Started by root, a job is user 10001 in its namespace and has no capability, but to the kernel its
files are root's: a real other user could not read inputs that only root may read. So /proc/sys is mounted read-only, no
setuid file can be made, and root's limit of processes (RLIMIT_NPROC), which binds nobody, is left to cgroups. Without
cgroups, `/tmp`, `/dev/shm` and files in memory are not counted by the limit of memory; the first two are bounded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import get_args

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.job import Command, Power
from tuneloop.sandboxes import seccomp
from tuneloop.sandboxes.job_user import JOB_USER, chown_tree
from tuneloop.sandboxes.local import LocalSandbox, WrappedCommand, closing

# Why a machine gives bubblewrap no namespaces, from what bwrap said and from the kernel's settings: one cure each.

APPARMOR = "kernel/apparmor_restrict_unprivileged_userns"
# Ubuntu 24.04 and later; written as one line of shell.
APPARMOR_PROFILE = (
    "abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap /usr/bin/bwrap flags=(unconfined) {\\n  userns,\\n}\\n"
)
SETTINGS = {  # a file in /proc/sys, what it says when it forbids, what allows
    "user/max_user_namespaces": ("0", "`sysctl user.max_user_namespaces=15000`"),
    "kernel/unprivileged_userns_clone": ("0", "`sysctl kernel.unprivileged_userns_clone=1`"),
    APPARMOR: (
        "1",
        f"an AppArmor profile for bwrap: `printf '{APPARMOR_PROFILE}' | sudo tee /etc/apparmor.d/bwrap` and "
        "`sudo systemctl reload apparmor`; or `sysctl kernel.apparmor_restrict_unprivileged_userns=0`",
    ),
}
CONTAINERS = (".dockerenv", "run/.containerenv")
IN_CONTAINER = "a container started with `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`"


def namespace_hint(problem: str, root: Path = Path("/")) -> str:
    """What helps against a refusal of bwrap, in one line."""
    if "nknown option" in problem:
        return "right is bubblewrap 0.8 or newer"
    for name, (forbidding, allowed) in SETTINGS.items():
        if read_sysctl(root / "proc/sys" / name) == forbidding:
            return f"the kernel forbids user namespaces: right is {allowed}"
    if any((root / name).exists() for name in CONTAINERS):
        return f"this is a container: right is {IN_CONTAINER}"
    return "right is a kernel that allows user namespaces (CONFIG_USER_NS), and no security module that forbids them"


def read_sysctl(setting: Path) -> str:
    """Its value, "" where the kernel has no such setting."""
    try:
        return setting.read_text().strip()
    except OSError:
        return ""


SCRATCH = 1 << 30  # bytes of /tmp and of /dev/shm at most
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

    def wrap(self, folder: Path, command: Command, lock: int) -> WrappedCommand:
        """Let bwrap keep the lock's descriptor (`--sync-fd`) without handing it to the job."""
        program = shutil.which("bwrap")
        if program is None:
            raise InvalidRequestError(MISSING)
        # Where root's jobs were in docker, folders are still their user's, and a job of root's has no right to them.
        handed = [path for path in command.write if Path(path).stat().st_uid == JOB_USER]
        chown_tree(handed, (os.geteuid(), os.getegid()))
        options = [*UNSHARE, *IDENTITY, "--sync-fd", str(lock)]
        options += [] if command.network else ["--unshare-net"]
        options += [*system_mounts(command.network, scratch_mounts(command)), *device_mounts(command)]
        options += [
            *path_mounts(command),
            *hide_job_folder(folder, command),
            "--remount-ro",
            "/",
            "--remount-ro",
            "/dev",
        ]
        handles = seccomp_descriptor()
        options += [word for handle in handles for word in ("--seccomp", str(handle))]
        argv = (program, *options, "--chdir", command.cwd, "--", *command.argv)
        return WrappedCommand(argv, wrappers=2, refusal="bwrap: ", handles=handles, scoped=command.network)


def seccomp_descriptor() -> tuple[int, ...]:
    """A descriptor of the filter of system calls; none on an architecture without one."""
    program = seccomp.build_filter()
    return (seccomp.open_filter(program),) if program else ()


def scratch_mounts(command: Command) -> int:
    """Bytes of /tmp and of /dev/shm: memory, whether or not the kernel counts it as the job's."""
    return min(SCRATCH, command.limits.memory or SCRATCH)


def system_mounts(network: bool, size: int = SCRATCH) -> list[str]:
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
    # bwrap's own first process holds the job's lock: through its memory a job could let that go and live on.
    options += ["--size", "4096", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1"]
    return [*options, "--size", str(size), "--tmpfs", "/tmp"]  # noqa: S108


def device_mounts(command: Command) -> list[str]:
    """null, zero, random, shared memory; GPUs unless hidden by an empty CUDA_VISIBLE_DEVICES.

    Generated code gets a GPU only where the command names one.
    """
    options = ["--dev", "/dev", "--size", str(scratch_mounts(command)), "--tmpfs", "/dev/shm"]  # noqa: S108
    if not command.env.get("CUDA_VISIBLE_DEVICES", "" if command.generated else "all"):
        return options
    found = [path for pattern in GPU_DEVICES for path in sorted(Path("/dev").glob(pattern))]
    for path in found:
        options += ["--dev-bind", str(path), str(path)]
    return [*options, "--ro-bind", "/sys", "/sys"] if found else options


def path_mounts(command: Command) -> list[str]:
    """The command's paths at the same place inside; what a path links to is there as well."""
    kinds = {path: "--ro-bind" for path in with_resolved(command.read) if not Path(path).is_relative_to("/usr")}
    kinds |= dict.fromkeys(with_resolved(command.write), "--bind")
    # Outer folders first: a later mount of a parent would hide an earlier one of its child.
    ordered = sorted(kinds.items(), key=lambda pair: pair[0].count("/"))
    ordered = [(path, kind) for path, kind in ordered if not is_mounted(path, kinds)]
    return [word for path, kind in ordered for word in (kind, path, path)]


def is_mounted(path: str, kinds: dict[str, str]) -> bool:
    """A folder around `path` brings it along; a link in there cannot be mounted on, what it leads to is."""
    around = [outer for outer in kinds if outer != path and Path(path).is_relative_to(outer)]
    nearest = max(around, key=len, default=None)
    return nearest is not None and (kinds[nearest] == kinds[path] or path != os.path.realpath(path))


def with_resolved(paths: Iterable[str]) -> list[str]:
    """Each path as it is written and as it resolves."""
    return [form for path in paths for form in dict.fromkeys((os.path.normpath(path), os.path.realpath(path)))]


def hide_job_folder(folder: Path, command: Command) -> list[str]:
    """A job does not see its own folder, unless it is listed."""
    forms = with_resolved([str(folder)])
    listed = with_resolved((*command.read, *command.write))
    inside = [form for form in forms if any(Path(form).is_relative_to(path) for path in listed)]
    return [word for form in inside if form not in listed for word in ("--tmpfs", form, "--remount-ro", form)]


MISSING = "bubblewrap is not installed: `apt install bubblewrap` (Debian, Ubuntu) or `dnf install bubblewrap`"


@cache
def probe_bubblewrap() -> str | None:
    """Why bubblewrap cannot be used here, with the cure; None when it works. Runs it once for real."""
    program = shutil.which("bwrap")
    if program is None:
        return MISSING
    handles = seccomp_descriptor()
    filtered = [word for handle in handles for word in ("--seccomp", str(handle))]
    argv = [
        program,
        *UNSHARE,
        "--unshare-net",
        *IDENTITY,
        *system_mounts(False),
        "--dev",
        "/dev",
        *filtered,
        "--",
        "/usr/bin/env",
    ]
    try:
        with closing(handles):
            tried = subprocess.run(
                argv, env={}, capture_output=True, text=True, timeout=20, check=False, pass_fds=handles
            )
    except (OSError, subprocess.TimeoutExpired) as e:
        return f"{program} does not run: {e}"
    if tried.returncode == 0:
        return None
    words = tried.stderr.strip().splitlines() or [f"{program}: failed without a word"]
    return f"{words[-1]}; {namespace_hint(tried.stderr)}"
