"""One forked job and the process above it that outlives it: takes the request, starts the job, tells how it ended.

Over the connection, one packet each: the request (JSON: argv, cwd, env, read, write, filter; with it two descriptors, the log's
pipe and the job's lock) or `retire`; back `{"refused": why}`, or `{"fork_parent": 1}` from the fork_parent and `{"job": 1}` from
the job, each of which the kernel stamps with its sender's pid; then `go`; at the end `{"code": .., "peak": .., "cpu": ..}`.
A connection that breaks is a supervisor that was killed: the job ends with it.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import fork_isolation
import landlock
from forked_job import become

PDEATHSIG, SUBREAPER = 1, 36
RETIRE = 3
PATIENCE = 20.0  # seconds for the other side to say its next word
PACKET = 1 << 20
# Environment that differs from job to job; of the rest, what these prefixes name is read while an engine is imported.
OWN = frozenset({"HOME", "HF_HOME", "XDG_CACHE_HOME", "CUDA_VISIBLE_DEVICES"})
AT_IMPORT = (
    "PYTHON",
    "LD_",
    "LC_",
    "LANG",
    "OMP_",
    "MKL_",
    "OPENBLAS_",
    "KMP_",
    "GOMP_",
    "NUMEXPR_",
    "TORCH",
    "PYTORCH_",
)
AT_IMPORT += ("CUDA_", "HF_", "TRANSFORMERS_", "TOKENIZERS_", "DATASETS_", "ACCELERATE_", "DISABLE_", "USE_", "XDG_")
AT_IMPORT += ("LLAMAFACTORY_", "COMPASS_", "JE_", "ARROW_")


@dataclass(frozen=True)
class Knowledge:
    """What the worker was started with, module attributes that name its home, and the engine's own hook.

    `inherited`: files that it did not open itself, such as its own lock.
    """

    env: Mapping[str, str]
    places: list[tuple[dict[str, Any], str, str, str]]
    inherited: list[int]
    in_child: Callable[[], None] | None


def home_places(env: Mapping[str, str]) -> list[tuple[dict[str, Any], str, str, str]]:
    """(module's dict, attribute, variable, rest of the path) of each constant that was made from a home variable."""
    roots = {env[name]: name for name in sorted(OWN - {"CUDA_VISIBLE_DEVICES"}) if name in env}
    found = []
    for module in list(sys.modules.values()):
        names = vars(module) if hasattr(module, "__dict__") else {}
        for name, value in list(names.items()):
            if isinstance(value, str | os.PathLike):
                text = os.fspath(value)
                root = next((root for root in roots if isinstance(text, str) and f"{text}/".startswith(f"{root}/")), "")
                if root:
                    found.append((names, name, roots[root], text[len(root) :]))
    return found


def move_home(places: list[tuple[dict[str, Any], str, str, str]], env: Mapping[str, str]) -> None:
    """Give those constants the value that they would have in a process started with `env`."""
    home = env.get("HOME", "/")
    default = {"XDG_CACHE_HOME": f"{home}/.cache", "HF_HOME": f"{home}/.cache/huggingface"}
    for names, name, variable, rest in places:
        text = env.get(variable, default.get(variable, home)) + rest
        names[name] = text if isinstance(names[name], str) else type(names[name])(text)


def guard(connection: socket.socket, known: Knowledge, worker: int) -> NoReturn:
    """Be the fork_parent of one connection. Never returns."""
    status = 1
    try:
        adopt_orphans()
        die_with(worker)
        connection.settimeout(PATIENCE)
        data, handles, _, _ = socket.recv_fds(connection, PACKET, 2)
        if data == b"retire":
            status = RETIRE
        elif len(handles) == 2:
            connection.settimeout(None)
            run(connection, json.loads(data), handles, known)
            status = 0
    finally:
        os._exit(status)


def run(connection: socket.socket, request: dict[str, Any], handles: list[int], known: Knowledge) -> None:
    """Start the job, watch it and tell its end."""
    scratch = tempfile.mkdtemp(prefix=f"{leftovers()}{os.getpid()}-")
    try:
        try:
            check(request, known.env)
            ruleset = landlock.allow(request["read"], (*request["write"], scratch))
        except landlock.Missing as e:
            connection.send(json.dumps({"refused": str(e)}).encode())
            return
        connection.send(b'{"fork_parent": 1}')
        env = {**request["env"], "TMPDIR": scratch}
        pid = start(connection, {**request, "env": env}, handles, ruleset, known)
        code = watch(connection, pid)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    end = {"code": code, "peak": used.ru_maxrss * 1024, "cpu": used.ru_utime + used.ru_stime}
    connection.send(json.dumps(end).encode())


def check(request: dict[str, Any], env: Mapping[str, str]) -> None:
    """Only a script under the worker's own Python, imported under the same environment. Raises landlock.Missing."""
    argv, asked = request["argv"], request["env"]
    if argv[0] != sys.executable or len(argv) < 2 or not Path(argv[1]).is_file():
        raise landlock.Missing(f"{' '.join(argv[:2])} is no script of {sys.executable}")
    names = {name for name in (*env, *asked) if name.startswith(AT_IMPORT) and name not in OWN}
    other = sorted(name for name in names if env.get(name) != asked.get(name))
    if other:
        raise landlock.Missing(f"the worker was started with another {', '.join(other)}")


def start(
    connection: socket.socket, request: dict[str, Any], handles: list[int], ruleset: int, known: Knowledge
) -> int:
    """Fork the job; returns when it has the supervisor's word, or is gone."""
    begun, mark = os.pipe()
    above = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(begun)
        try:
            os.setsid()
            die_with(above)
            connection.send(b'{"job": 1}')
            if connection.recv(16) != b"go":
                os._exit(127)
            connection.close()
            os.dup2(handles[0], 1)
            os.dup2(handles[0], 2)
            for lock in (handles[1], *known.inherited):
                fork_isolation.hold(lock)
            move_home(known.places, request["env"])
            become(request, ruleset, known.in_child, (handles[0], mark))
        except BaseException:  # noqa: BLE001 - the job's log is the only place left to tell it
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(127)
    for handle in (mark, ruleset, handles[0]):
        os.close(handle)
    os.read(begun, 1)
    os.close(begun)
    return pid


def watch(connection: socket.socket, pid: int) -> int:
    """The job's exit status, when nothing of it is left; a broken connection ends it."""
    handle = os.pidfd_open(pid)
    looks = select.poll()
    looks.register(handle, select.POLLIN)
    looks.register(connection, select.POLLIN)
    code = None
    while code is None:
        if any(fd == connection.fileno() for fd, _ in looks.poll(1000)):
            kill([pid])
            looks.unregister(connection)
        for ended, status in iter(wait_any, None):
            code = status if ended == pid else code
    while living := list(descendants(os.getpid())):
        kill(living)
        time.sleep(0.002)
        for _ in iter(wait_any, None):
            continue
    return code


def wait_any() -> tuple[int, int] | None:
    """Pid and exit status of a child that ended, None when there is none."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, os.waitstatus_to_exitcode(status)) if pid else None


def children(pid: int) -> list[int]:
    """Direct children of a process without threads that fork."""
    try:
        found = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(word) for words in found for word in words]


def descendants(pid: int) -> Iterator[int]:
    """All below `pid`."""
    for child in children(pid):
        yield child
        yield from descendants(child)


def kill(pids: Iterable[int]) -> None:
    """End each; one that is gone is no error."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def adopt_orphans() -> None:
    """Descendants whose parent ends become our children, also after setsid and double fork."""
    landlock.libc.prctl(SUBREAPER, 1, 0, 0, 0)


def die_with(parent: int) -> None:
    """Be killed when `parent` is, also when it already was."""
    landlock.libc.prctl(PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(127)


def leftovers() -> str:
    """How the scratch folders of this worker's jobs begin; the worker's place makes the name its own."""
    return f"tuneloop-{hashlib.sha256(bytes(Path.cwd())).hexdigest()[:12]}-"


def remove_leftovers(fork_parent: int | str = "*") -> None:
    """Scratch folders of a fork_parent that was killed; of all that a killed worker had."""
    for folder in Path(tempfile.gettempdir()).glob(f"{leftovers()}{fork_parent}-*"):
        shutil.rmtree(folder, ignore_errors=True)
