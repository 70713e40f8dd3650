"""Kills the process that loads it at the first write or rename boundary below a folder that nobody was killed at yet.

Standard library only: orchestrators and supervisors load it. Every changing call that Python can make is wrapped; an
audit hook notes those that got past the wrapping, so that the list is complete or says where it is not.
"""

from __future__ import annotations

import builtins
import io
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
AUDITED = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "open"}
# What differs between two sessions of one run and means the same place.
SAME = (
    (re.compile(r"/(jobs|workers)/([\w-]+)\.\d+"), r"/\1/\2.#"),
    (re.compile(r"\.\d+\.part\b"), ".#.part"),
    (re.compile(r"/inbox/\d+"), "/inbox/#"),
    (re.compile(r"/lease/(\d+|\.\w+)(?=\.(json|part|released)\b)"), "/lease/#"),
    (re.compile(r"\b\d{8}[-_]\d{6}\b"), "#time"),
    (re.compile(r"/experiments/\d+/(?=.*/(?:hf|cache)/)"), "/experiments/#/"),
)
FRAMES = 2
# For a reader of the disk the same as the boundary before them, as long as only a process dies.
SAME_DISK = {"after fsync", "after close"}
SAME_PART = {"after open", "after write", "after unlink"}
# Of a folder that is removed file by file the short form takes one file.
ONE_BY_ONE = {"after unlink", "after rmdir"}
NODE = re.compile(r'"kind":"node_started".*"node":"(\w+)"')


class Killer:
    """Ends this process by SIGKILL at the first boundary below `home` whose name is not in the file `seen`.

    Without `every`, those are passed at which the disk is as at the one before, or only differs in what is made anew
    from the beginning (a folder without its manifest) or is being removed.
    """

    def __init__(self, home: str, seen: str, past: str, every: bool = True) -> None:
        self.home, self.seen_file, self.past_file = home.rstrip("/") + "/", seen, past
        self.every = every
        with open(seen, encoding="utf-8") as f:
            self.seen = set(f.read().splitlines())
        self.inside = threading.local()
        self.node, self.commits = "", 0

    def reach(self, what: str, path: object, last: Callable[[], None] | None = None) -> None:
        """A boundary: the first time ever it is the end of this process; `last` is done before, e.g. half a write."""
        where = self.below(path)
        if where is None or getattr(self.inside, "busy", False):
            return
        if not self.every:
            if what in SAME_DISK or (what in SAME_PART and where.endswith(".part")):
                return
            if ".part/" in where and "manifest.json" not in where:
                return
            where = os.path.dirname(where) if what in ONE_BY_ONE else where
        name = f"{what} {where} by {callers()}{self.occurrence(what)}"
        if name in self.seen:
            return
        self.inside.busy = True
        if last is not None:
            last()
        handle = os_open(self.seen_file, os.O_WRONLY | os.O_APPEND)
        os_write(handle, f"{name}\n".encode())
        os.kill(os.getpid(), signal.SIGKILL)

    def occurrence(self, what: str) -> str:
        """Commits all come from one place: which one after the start of which node tells them apart."""
        if "commit" not in what:
            return ""
        if what == "before commit":
            self.commits += 1
        return f" of {self.node}, {self.commits}"

    def hear(self, data: object) -> None:
        """What goes to the event log says in which node the run is."""
        text = data.decode(errors="replace") if isinstance(data, bytes) else str(data)
        found = NODE.search(text)
        if found:
            self.node, self.commits = found[1], 0

    def below(self, path: object) -> str | None:
        """The path relative to the home, attempts and pids made equal; None for other places."""
        if isinstance(path, int):
            try:
                path = os.readlink(f"/proc/self/fd/{path}")
            except OSError:
                return None
        if not isinstance(path, str | bytes | os.PathLike):
            return None
        text = os.path.abspath(os.fsdecode(path))
        if not text.startswith(self.home):
            return None
        text = "/" + text[len(self.home) :]
        for pattern, instead in SAME:
            text = pattern.sub(instead, text)
        return text[1:]

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Note a change that no wrapper announced."""
        if event not in AUDITED or getattr(self.inside, "depth", None) or getattr(self.inside, "busy", False):
            return
        if event == "open" and not (isinstance(args[2], int) and args[2] & CHANGING):
            return
        where = self.below(args[0])
        if where is not None:
            self.inside.busy = True
            handle = os_open(self.past_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os_write(handle, f"{event} {where} by {callers()}\n".encode())
            os.close(handle)
            self.inside.busy = False

    def wrapped(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call it with the audit hook knowing that it is announced."""
        self.inside.depth = getattr(self.inside, "depth", 0) + 1
        try:
            return call(*args, **kwargs)
        finally:
            self.inside.depth -= 1


def callers() -> str:
    """The innermost product functions on the stack: the same file written elsewhere is another boundary."""
    found: list[str] = []
    frame = sys._getframe(2)
    while frame is not None and len(found) < FRAMES:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("tuneloop.") and module != "tuneloop.core.files":
            found.append(f"{module.removeprefix('tuneloop.')}.{frame.f_code.co_name}")
        frame = frame.f_back  # type: ignore[assignment]
    return " < ".join(found) or "-"


os_open, os_write, real_open = os.open, os.write, builtins.open


def install(killer: Killer) -> None:
    """Wrap everything that changes files, starts processes or commits."""
    for module, name in [(os, n) for n in ("replace", "rename", "link", "symlink")]:
        _two_paths(killer, module, name)
    for module, name in [(os, n) for n in ("unlink", "remove", "mkdir", "rmdir", "truncate", "ftruncate", "fsync")]:
        _one_path(killer, module, name)
    for name in ("write", "pwrite", "sendfile"):
        _one_path(killer, os, name)
    _descriptor(killer)
    _files(killer)
    _processes(killer)
    _databases(killer)
    sys.addaudithook(killer.audit)


def _two_paths(killer: Killer, module: Any, name: str) -> None:
    real = getattr(module, name)

    def call(source: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        killer.reach(f"before {name}", target)
        done = killer.wrapped(real, source, target, *args, **kwargs)
        killer.reach(f"after {name}", target)
        return done

    setattr(module, name, call)


def _one_path(killer: Killer, module: Any, name: str) -> None:
    real = getattr(module, name)

    def call(path: Any, *args: Any, **kwargs: Any) -> Any:
        done = killer.wrapped(real, path, *args, **kwargs)
        inside = kwargs.get("dir_fd")
        if inside is not None:
            path = os.path.join(os.readlink(f"/proc/self/fd/{inside}"), os.fsdecode(path))
        killer.reach(f"after {name}", path)
        return done

    if name in getattr(os, "supports_dir_fd", ()) or real in os.supports_dir_fd:
        os.supports_dir_fd.add(call)
    setattr(module, name, call)


def _descriptor(killer: Killer) -> None:
    def call(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        done: int = killer.wrapped(os_open, path, flags, *args, **kwargs)
        if flags & os.O_CREAT:
            killer.reach("after open", path)
        return done

    if os_open in os.supports_dir_fd:
        os.supports_dir_fd.add(call)
    os.open = call


class Watched:
    """A file open for writing; dies in the middle of a write and after it."""

    def __init__(self, file: Any, path: object, killer: Killer) -> None:
        self.__dict__.update(file=file, path=path, killer=killer)

    def write(self, data: Any) -> Any:
        def half() -> None:
            self.file.write(data[: len(data) // 2])
            self.file.flush()

        if len(data) > 1:
            self.killer.reach("inside write", self.path, half)
        done = self.file.write(data)
        self.killer.hear(data)
        self.killer.reach("after write", self.path, self.file.flush)
        return done

    def close(self) -> None:
        self.file.close()
        self.killer.reach("after close", self.path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.file, name, value)

    def __iter__(self) -> Any:
        return iter(self.file)

    def __enter__(self) -> Watched:
        self.file.__enter__()
        return self

    def __exit__(self, *what: object) -> Any:
        done = self.file.__exit__(*what)
        self.killer.reach("after close", self.path)
        return done


def _files(killer: Killer) -> None:
    def call(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        opened = killer.wrapped(real_open, file, mode, *args, **kwargs)
        if not set(mode) & set("wax+") or isinstance(file, int) or killer.below(file) is None:
            return opened
        killer.reach("after open", file)
        return Watched(opened, file, killer)

    builtins.open = call
    io.open = call


def _processes(killer: Killer) -> None:
    real = subprocess.Popen.__init__

    def call(self: Any, args: Any, *rest: Any, **kwargs: Any) -> None:
        words = [args] if isinstance(args, str | bytes | os.PathLike) else list(args)
        place = next((w for w in words if killer.below(w) is not None), killer.home + "-")
        killer.reach("before start", place)
        real(self, args, *rest, **kwargs)
        killer.reach("after start", place)

    subprocess.Popen.__init__ = call  # type: ignore[method-assign]


def forks(killer: Killer) -> None:
    """Supervisors only: die around a fork, as parent and as child."""
    real = os.fork

    def call() -> int:
        killer.reach("before fork", killer.home + "-")
        pid = real()
        killer.reach("after fork, parent" if pid else "after fork, child", killer.home + "-")
        return pid

    os.fork = call


def _databases(killer: Killer) -> None:
    real = sqlite3.connect

    def call(database: Any, *args: Any, **kwargs: Any) -> sqlite3.Connection:
        class Connection(sqlite3.Connection):
            """Dies before and after a commit."""

            def commit(self) -> None:
                killer.reach("before commit", database)
                super().commit()
                killer.reach("after commit", database)

        opened: sqlite3.Connection = killer.wrapped(real, database, *args, **{"factory": Connection, **kwargs})
        killer.reach("after connect", database)
        return opened

    sqlite3.connect = call  # type: ignore[assignment]


_ = shutil  # imported before the wrapping: its functions find the wrapped ones by name at each call
