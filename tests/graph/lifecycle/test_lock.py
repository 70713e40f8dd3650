from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.locks import is_locked
from tuneloop.graph.lifecycle.lock import hold_exclusively, hold_lock, is_held

HOLDER = "import sys,time;from pathlib import Path;from tuneloop.graph.lifecycle.lock import hold_lock as hold\n"
HOLDER += "with hold(Path(sys.argv[1])):\n  print('held',flush=True)\n  time.sleep(60)"


def holder(lock: Path) -> subprocess.Popen[str]:
    p = subprocess.Popen([sys.executable, "-c", HOLDER, str(lock)], stdout=subprocess.PIPE, text=True)
    assert p.stdout is not None
    assert p.stdout.readline() == "held\n"
    return p


def test_second_process_is_refused_with_the_holders_pid(tmp_path: Path) -> None:
    lock = tmp_path / "run" / "lock"
    p = holder(lock)
    try:
        assert is_held(lock)
        with pytest.raises(InvalidRequestError, match=f"pid {p.pid} on "), hold_lock(lock):
            pass
    finally:
        os.kill(p.pid, signal.SIGKILL)
        p.wait()
    assert not is_held(lock)
    with hold_lock(lock):
        assert is_held(lock)


ORPHAN = "import os,sys,time;from pathlib import Path;from tuneloop.graph.lifecycle.lock import hold_lock as hold\n"
ORPHAN += "with hold(Path(sys.argv[1])):\n  if os.fork() == 0: time.sleep(1); os._exit(0)\n  print('held',flush=True)\n"
ORPHAN += "  time.sleep(60)"


def test_what_a_killed_holder_left_is_waited_for(tmp_path: Path) -> None:
    """A child that was just forked has the lock until it is executed."""
    lock = tmp_path / "run" / "lock"
    p = subprocess.Popen([sys.executable, "-c", ORPHAN, str(lock)], stdout=subprocess.PIPE, text=True)
    assert p.stdout is not None
    assert p.stdout.readline() == "held\n"
    os.kill(p.pid, signal.SIGKILL)
    p.wait()
    assert is_held(lock)
    with hold_lock(lock):
        assert is_held(lock)


def test_the_holder_may_enter_again(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with hold_lock(lock):
        with hold_lock(lock):
            assert is_held(lock)
        assert is_held(lock)
    assert not is_held(lock)


def test_who_leaves_last_lets_go(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    first, second = hold_lock(lock), hold_lock(lock)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert is_locked(lock), "another thread is still at work"
    second.__exit__(None, None, None)
    assert not is_locked(lock)


def test_a_failure_inside_frees_it(tmp_path: Path) -> None:
    with pytest.raises(KeyError), hold_lock(tmp_path / "lock"):
        raise KeyError("x")
    assert not is_held(tmp_path / "lock")


def test_one_thread_of_a_process_holds_the_run(tmp_path: Path) -> None:
    lock = tmp_path / "r1" / "lock"
    with hold_lock(lock), hold_exclusively(lock):  # `tuneloop resume` holds it before it drives
        with ThreadPoolExecutor(1) as pool:
            second = pool.submit(hold_exclusively(lock).__enter__)
            with pytest.raises(InvalidRequestError, match="another thread of this process"):
                second.result()
        with hold_lock(lock):  # a node
            assert is_held(lock)
    with hold_exclusively(lock):
        assert is_held(lock)
    assert not is_held(lock)
