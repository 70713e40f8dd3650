"""Imports an engine once and forks a job at once whenever one is asked for: `python worker.py PRELOAD IDLE_SECONDS`.

PRELOAD is a folder with `preload.py`, whose import brings everything that the engine's jobs import. Jobs are asked for
at the socket `socket` in the working directory; `fork_parent.py` says how. Nothing runs here but imports: no tensor, no GPU,
no thread, so that a fork is as good as a fresh process. Ends with status IDLE after IDLE_SECONDS without a job, or when
it was told to retire and its last job is over.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import socket
import sys
import time
from pathlib import Path

import fork_isolation
import fork_parent

IDLE = 75
TICK = 0.2


def main(preload: str, idle: float) -> None:
    """Import, listen, fork."""
    given = dict(os.environ)
    inherited = fork_isolation.open_files()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # no import may wake a GPU that forked jobs could not use any more
    sys.path[0] = preload
    engine = importlib.import_module("preload")
    check_alone()
    fork_parent.remove_leftovers()
    places = fork_parent.home_places(given)
    gc.collect()
    gc.freeze()
    serve(listen("socket"), fork_parent.Knowledge(given, places, inherited, getattr(engine, "in_child", None)), idle)
    Path("socket").unlink(missing_ok=True)
    os._exit(IDLE)  # there is nothing to say goodbye to, and so much to take apart


def check_alone() -> None:
    """End with a reason where a fork would inherit broken state."""
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        sys.exit(f"{threads} threads after the imports; right is one")
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        sys.exit("an import has initialised CUDA; forked jobs could not use it")


def listen(name: str) -> socket.socket:
    """A socket in the working directory; it has its name when it answers."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    part = Path(f".{name}")
    part.unlink(missing_ok=True)
    door.bind(str(part))
    door.listen(32)
    part.replace(name)
    return door


def serve(door: socket.socket, known: fork_parent.Knowledge, idle: float) -> None:
    """A fork_parent for each connection, until idle or retired."""
    fork_parents: set[int] = set()
    last, retired = time.monotonic(), False
    while fork_parents or not (retired or time.monotonic() - last > idle):
        if select.select([] if retired else [door], [], [], TICK if fork_parents else min(idle, 2.0))[0]:
            fork_parents |= hire(door, known)
        ended = reap(fork_parents)
        if fork_parents or ended:
            last = time.monotonic()
        if fork_parent.RETIRE in ended and not retired:
            retired = True
            Path("socket").unlink(missing_ok=True)


def hire(door: socket.socket, known: fork_parent.Knowledge) -> set[int]:
    """Fork a fork_parent for the next connection; its pid. A job of ours gets none: it could ask for wider access."""
    connection, _ = door.accept()
    if fork_isolation.is_job(connection):
        connection.close()
        return set()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        door.close()
        fork_parent.guard(connection, known, parent)
    connection.close()
    return {pid}


def reap(fork_parents: set[int]) -> list[int]:
    """Exit statuses of fork_parents that ended; whatever else has become our child was a job's whose fork_parent was killed."""
    ended = []
    while (found := fork_parent.wait_any()) is not None:
        if found[0] in fork_parents:
            fork_parents.discard(found[0])
            ended.append(found[1])
            if found[1] < 0:
                fork_parent.remove_leftovers(found[0])
    fork_parent.kill(pid for pid in fork_parent.children(os.getpid()) if pid not in fork_parents)
    return ended


if __name__ == "__main__":
    fork_parent.adopt_orphans()
    fork_isolation.closed_to_others(True)
    main(sys.argv[1], float(sys.argv[2]))
