"""Run commands and say what each one cost: wall seconds, CPU seconds, peak memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tuneloop.sandboxes.process_tree import descendants

LOOK = 0.005  # seconds between two looks at a process
TUNELOOP = (sys.executable, "-m", "tuneloop.cli.main")


@dataclass(frozen=True)
class Spent:
    """`wall` and `cpu` in seconds (`cpu` with waited children), `memory`: the largest process in MB; `end`: exit status."""

    wall: float
    cpu: float
    memory: float
    end: int


def spend(argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None, log: Path) -> Spent:
    """Run to the end, output into `log`."""
    began = time.perf_counter()
    with log.open("ab") as out:
        child = subprocess.Popen(argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        most = 0.0
        while not (ended := os.wait4(child.pid, os.WNOHANG))[0]:
            most = max(most, high_water(child.pid))
            time.sleep(LOOK)
    _, status, used = ended
    wall = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    return Spent(wall, used.ru_utime + used.ru_stime, most, child.returncode)


def high_water(pid: int) -> float:
    """Peak MB of a process that lives. `ru_maxrss` would be ours where we are larger: exec does not forget a fork's."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmHWM:")), 0.0)


def well(spent: Spent, log: Path) -> Spent:
    """The same; raises RuntimeError with the end of the log when the command failed."""
    if spent.end != 0:
        raise RuntimeError(f"exit status {spent.end}: {log.read_text(errors='replace')[-1500:]}")
    return spent


def environment(home: Path) -> dict[str, str]:
    """Variables of this process, for a tuneloop that works in `home` on one thread without the result cache."""
    plain = {"FT_FILE_PATH": str(home), "FT_DOCKER_ENABLE_CACHE": "false", "OMP_NUM_THREADS": "1"}
    return {**os.environ, **plain, "PYTHONSAFEPATH": "1"}


@contextmanager
def background(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process group of its own that is ended when the block is left."""
    with log.open("ab") as out:
        child = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield child
    finally:
        end(child)


def end(child: subprocess.Popen[bytes]) -> None:
    """Ctrl-C for the whole group, after ten seconds SIGKILL."""
    if child.poll() is not None:
        return
    os.killpg(child.pid, signal.SIGINT)
    try:
        child.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def until(
    seen: Callable[[], object], what: str, child: subprocess.Popen[bytes] | None = None, seconds: float = 300
) -> None:
    """Look every 10 ms. Raises RuntimeError when the time is over or `child` ended before."""
    deadline = time.monotonic() + seconds
    while not seen():
        if child is not None and child.poll() is not None and not seen():
            raise RuntimeError(f"waiting for {what}: the process ended with status {child.returncode}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"waiting for {what}: not within {seconds:.0f} s")
        time.sleep(0.01)


def busy(pid: int) -> float:
    """CPU seconds of one living process, all threads, children left out."""
    return sum(int(f.read_text().split()[0]) for f in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def ever_busy(root: int) -> float:
    """CPU seconds of `root` and all below it, ended children that were waited for included; 10 ms fine."""
    fields = []
    for pid in (root, *descendants(root)):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields.append(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:15])
    return sum(int(ticks) for four in fields for ticks in four) / os.sysconf("SC_CLK_TCK")
