"""A warm process for bytes of strangers: it reads a few folders, knows no secret, reaches nothing, and answers lines with lines.

Inside bubblewrap where that works here; else it shuts itself in by Landlock before it is asked anything. Where neither works
(macOS, old kernels) it is a plain process with an empty environment and the same limits, which the caller can say: it could
then read other files of the user.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import tuneloop
from tuneloop.core.async_bridge import raise_if_interrupted
from tuneloop.core.errors import InfrastructureError
from tuneloop.sandboxes.bubblewrap import (
    UNSHARE,
    USER,
    probe_bubblewrap,
    seccomp_descriptor,
    system_mounts,
    with_resolved,
)
from tuneloop.sandboxes.detached import BOOT, is_readable
from tuneloop.sandboxes.landlock import probe_landlock, shut_in
from tuneloop.sandboxes.local import ROOT, closing
from tuneloop.sandboxes.process_tree import descendants, send_signal

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # the others reserve more than they use
}
SCRATCH = 1 << 20  # bytes of /tmp
CHUNK = 1 << 20
PIPE_SIZE = 1031  # F_SETPIPE_SZ
HEARD_EVERY = 0.5  # seconds after which a pause is heard while it says nothing


class ProcessGoneError(Exception):
    """The process died, was ended by a limit or said too much; the text says how."""


class ConfinedProcess:
    """`main(*words)` of one of our modules, with `read` as the only folders beside the interpreter and this package.

    `unconfined`: why there is no sandbox around it, "" where there is one.
    """

    def __init__(self, module: str, *words: str, read: Sequence[Path]) -> None:
        """Start it. Raises InfrastructureError."""
        kind, self.unconfined = reader_sandbox()
        handles = seccomp_descriptor() if kind == "bubblewrap" else ()
        if kind == "landlock":
            shown = [str(path) for path in (*interpreter_folders(), *read)]
            module, words = __name__, (json.dumps(shown), module, *words)
        argv = [sys.executable, "-I", "-c", BOOT.format(module=module), str(ROOT), *words]
        wrapped = [*bubblewrap_words(read, handles), *argv] if kind == "bubblewrap" else argv
        try:
            with closing(handles):
                self._child = subprocess.Popen(
                    wrapped,
                    env=ENVIRONMENT,
                    cwd="/",
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    pass_fds=handles,
                    start_new_session=True,
                    bufsize=0,
                )
        except OSError as e:
            raise InfrastructureError(f"the reader of raw data cannot be started: {e}") from e
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._in, self._out = self._child.stdin, self._child.stdout
        self._lines, self._rest = deque[bytes](), b""
        widen_pipe(self._out.fileno())

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._child.poll() is None

    def send(self, line: bytes) -> None:
        """Ask. Raises ProcessGoneError."""
        try:
            self._in.write(line + b"\n")
        except OSError:
            raise ProcessGoneError(self._how()) from None

    def line(self, seconds: float, longest: int) -> tuple[bytes, float]:
        """The next line that it says, and the seconds that were waited for it.

        Raises ProcessGoneError when it ends, when `seconds` are over, or for a line beyond `longest` bytes; PausedError.
        """
        if self._lines:
            return self._lines.popleft(), 0.0
        parts, size, began = [self._rest], len(self._rest), time.monotonic()
        while b"\n" not in parts[-1]:
            self._wait(began + seconds)
            parts.append(os.read(self._out.fileno(), CHUNK))
            size += len(parts[-1])
            if not parts[-1]:
                raise ProcessGoneError(self._how())
            if size > longest + CHUNK:
                self.end()
                raise ProcessGoneError(f"said more than {longest >> 20} MB at once")
        *whole, self._rest = b"".join(parts).split(b"\n")
        self._lines.extend(whole)
        return self._lines.popleft(), time.monotonic() - began

    def _wait(self, end: float) -> None:
        """Until it says something. Raises ProcessGoneError when it is `end`, PausedError when the work is to stop."""
        raise_if_interrupted()
        while not is_readable(self._out.fileno(), min(HEARD_EVERY, max(0.0, end - time.monotonic()))):
            raise_if_interrupted()
            if time.monotonic() >= end:
                self.end()
                raise ProcessGoneError("took longer than the time limit")

    def _how(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(5)
        code = self._child.returncode
        self.end()
        number = -code if code is not None and code < 0 else (code or 0) - 128
        if 0 < number < signal.NSIG:
            return f"was ended by {signal.Signals(number).name}"
        return f"ended with exit status {code}"

    def end(self) -> None:
        """End it, and wait until it is over."""
        with contextlib.suppress(OSError):
            self._in.close()
        if self.alive and sys.platform == "linux":  # its end alone would leave what is inside without a parent
            send_signal(descendants(self._child.pid), signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(5)
        if self.alive:
            self._child.kill()
        self._child.wait()
        self._out.close()


@cache
def reader_sandbox() -> tuple[Literal["bubblewrap", "landlock", ""], str]:
    """What shuts such a process in here, and why nothing does."""
    if sys.platform != "linux":
        return "", "only Linux has bubblewrap and Landlock"
    problem = probe_bubblewrap()
    if problem is None:
        return "bubblewrap", ""
    lacking = probe_landlock()
    return ("landlock", "") if lacking is None else ("", f"{problem}; nor landlock: {lacking}")


def main(read: str, module: str, *words: str) -> None:
    """In the process: shut it in by Landlock, for good; then `main(*words)` of `module`."""
    shut_in(json.loads(read))
    importlib.import_module(module).main(*words)


def widen_pipe(descriptor: int) -> None:
    """Fewer waits for a stream of rows; a kernel may refuse."""
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, PIPE_SIZE, CHUNK)


def bubblewrap_words(read: Sequence[Path], handles: tuple[int, ...]) -> list[str]:
    """Bwrap and its options. It does not end with our thread (`--die-with-parent`): it ends when its input does."""
    program = shutil.which("bwrap")
    assert program is not None, "probed before"
    words = [
        program,
        *UNSHARE,
        "--unshare-net",
        "--new-session",
        *USER,
        *system_mounts(False, SCRATCH),
        "--dev",
        "/dev",
    ]
    for path in sorted(with_resolved(map(str, (*interpreter_folders(), *read))), key=lambda path: path.count("/")):
        if not Path(path).is_relative_to("/usr"):
            words += ["--ro-bind", path, path]
    words += ["--remount-ro", "/", "--remount-ro", "/dev"]
    words += [word for handle in handles for word in ("--seccomp", str(handle))]
    return [*words, "--chdir", "/", "--"]


def interpreter_folders() -> list[Path]:
    """Python with its packages, and this package: of a checkout its folders, and nothing that lies beside them."""
    package = Path(tuneloop.__file__).parent
    folders = [Path(sys.prefix), Path(sys.base_prefix), package]
    return list(dict.fromkeys([*folders, *(path.resolve() for path in package.iterdir() if path.is_symlink())]))
