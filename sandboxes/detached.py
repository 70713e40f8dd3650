"""Start processes of our own that outlive us: one that knows a secret, and the command line as from another terminal."""

from __future__ import annotations

import math
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tuneloop.core.async_bridge import pause
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.state_folder import inherited
from tuneloop.sandboxes.local import ROOT

# Whoever ends our process tree shall not find it below us: it is handed to init before it begins.
ORPHAN = "import os, sys; os.fork() and os._exit(0); os.execv(sys.argv[1], sys.argv[1:])"
BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from {module} import main; main(*sys.argv[2:])"
START_SECONDS = 60.0
GLANCE = 0.05


def start_detached(module: str, *words: str, told: bytes, log: Path, lock: int) -> None:
    """Call `main(*words, LOCK)` of one of our modules in a new session, with `told` on its standard input.

    What it is told is in no argument, environment or file. It inherits the locked descriptor, and detaches by forking when
    it is ready; its parent's end is waited for here. Raises InfrastructureError when it does not come up.
    """
    argv = [sys.executable, "-I", "-c", BOOT.format(module=module), str(ROOT), *words, str(lock)]
    try:
        with log.open("ab") as out:
            begun = os.fstat(out.fileno()).st_size
            done = subprocess.run(
                argv,
                input=told,
                stdout=out,
                stderr=out,
                env=inherited(),
                cwd="/",
                pass_fds=(lock,),
                start_new_session=True,
                timeout=START_SECONDS,
                check=False,
            )
    except (OSError, subprocess.SubprocessError) as e:
        raise InfrastructureError(f"{module} cannot be started: {type(e).__name__}") from None
    if done.returncode != 0:
        said = log.read_bytes()[begun:].decode(errors="replace").strip().splitlines()
        raise InfrastructureError(f"{module} did not start: {said[-1] if said else 'no reason given'}")


def start_command_line(*words: str, cwd: Path, log: Path, env: Mapping[str, str] | None = None) -> int:
    """`tuneloop WORDS` with our environment in a session of its own; a descriptor that comes to its end when it does.

    `env`: variables beside our own. Both streams go to `log`. Raises InfrastructureError when nothing can be started.
    """
    argv = [sys.executable, "-P", "-m", "tuneloop.cli.main", *words]
    ended, alive = os.pipe()
    try:
        with log.open("ab") as out:
            subprocess.run(
                [sys.executable, "-I", "-S", "-c", ORPHAN, *argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=cwd,
                env={**os.environ, **(env or {})},
                pass_fds=(alive,),
                start_new_session=True,
                timeout=START_SECONDS,
                check=True,
            )
    except (OSError, subprocess.SubprocessError) as e:
        os.close(ended)
        raise InfrastructureError(f"the command line cannot be started: {type(e).__name__}") from None
    finally:
        os.close(alive)
    return ended


def run_command_line(*words: str, env: Mapping[str, str], seconds: float) -> str:
    """`tuneloop WORDS` with our environment and `env`; it is ended after `seconds`.

    Returns the last line of what went wrong, "" when nothing did. What it prints else is dropped.
    """
    argv = [sys.executable, "-P", "-m", "tuneloop.cli.main", *words]
    null = subprocess.DEVNULL
    try:
        done = subprocess.run(
            argv, env={**os.environ, **env}, stdin=null, stdout=null, stderr=subprocess.PIPE, timeout=seconds,
            start_new_session=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"tuneloop {words[0]} took more than {seconds:g} s"
    except OSError as e:
        return f"tuneloop {words[0]} cannot be started: {e.strerror}"
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return (said[-1] if said else f"exit code {done.returncode}") if done.returncode else ""


def is_readable(handle: int, seconds: float) -> bool:
    """Whether there is something to read, or the other end is closed, within `seconds`.

    `select` takes no descriptor above 1,023, and a server may have as many.
    """
    asked = select.poll()
    asked.register(handle, select.POLLIN)
    return bool(asked.poll(math.ceil(seconds * 1000)))


def wait_accepted(ended: int, accepted: Callable[[], bool], seconds: float) -> bool:
    """Wait until what was started has accepted, has ended, or `seconds` are over; whether it ended without accepting.

    `ended`: the descriptor that `start_command_line` gave; it is closed.
    """
    try:
        deadline = time.monotonic() + seconds
        while not accepted() and time.monotonic() < deadline:
            if is_readable(ended, 0):
                return not accepted()
            pause(GLANCE)
    finally:
        os.close(ended)
    return False


# A second process for our own work: a module of this package that reads arguments and answers on its output.


class WorkerProcess:
    """A process that runs in parallel to this one."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child

    def answer(self) -> bytes | None:
        """Wait for what it says; None when it failed or was killed: then the work is still to be done."""
        said, _ = self._child.communicate()
        return said if self._child.returncode == 0 else None


@contextmanager
def worker_process(module: str, *words: str) -> Iterator[WorkerProcess]:
    """Run `python -m module words` on the same code; it is ended when the block is left."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONSAFEPATH": "1"}
    child = subprocess.Popen(
        [sys.executable, "-m", module, *words],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield WorkerProcess(child)
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


def run_program(argv: Sequence[str], told: bytes, seconds: float) -> str:
    """Run a program that the owner named, without a shell, `told` on its standard input; it is ended after `seconds`.

    Returns what went wrong, "" when nothing did. What it prints is dropped.
    """
    null = subprocess.DEVNULL
    try:
        done = subprocess.run(
            argv, input=told, stdout=null, stderr=null, timeout=seconds, check=False, start_new_session=True
        )
    except subprocess.TimeoutExpired:
        return f"{argv[0]} took more than {seconds:g} s"
    except OSError as e:
        return f"{argv[0]} cannot be started: {e.strerror}"
    return f"{argv[0]} ended with exit code {done.returncode}" if done.returncode else ""
