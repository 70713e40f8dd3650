from __future__ import annotations

import contextvars
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tuneloop.core.errors import SetupError
from tuneloop.graph.lock import hold, is_held

HOLDER = "import sys,time;from pathlib import Path;from tuneloop.graph.lock import hold\n"
HOLDER += "with hold(Path(sys.argv[1])):\n  print('held',flush=True)\n  time.sleep(60)"


def holder(lock: Path) -> subprocess.Popen[str]:
    p = subprocess.Popen([sys.executable, "-c", HOLDER, str(lock)], stdout=subprocess.PIPE, text=True)
    assert p.stdout is not None
    assert p.stdout.readline() == "held\n"
    return p


def test_a_second_process_is_told_who_holds_it(tmp_path: Path) -> None:
    lock = tmp_path / "run" / "lock"
    p = holder(lock)
    try:
        assert is_held(lock)
        with pytest.raises(SetupError, match=f"pid {p.pid} on "), hold(lock):
            pass
    finally:
        os.kill(p.pid, signal.SIGKILL)
        p.wait()
    assert not is_held(lock)
    with hold(lock):
        assert is_held(lock)


def test_the_holder_may_enter_again(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with hold(lock):
        with hold(lock):
            assert is_held(lock)
        assert is_held(lock)
    assert not is_held(lock)


def test_a_failure_inside_frees_it(tmp_path: Path) -> None:
    with pytest.raises(KeyError), hold(tmp_path / "lock"):
        raise KeyError("x")
    assert not is_held(tmp_path / "lock")


def test_another_thread_is_refused_and_what_the_holder_starts_is_not(tmp_path: Path) -> None:
    lock = tmp_path / "r1" / "lock"

    def enter() -> bool:
        with hold(lock):
            return is_held(lock)

    with ThreadPoolExecutor(1) as pool:
        with hold(lock):
            inside = contextvars.copy_context()
            assert pool.submit(inside.run, enter).result()
            with pytest.raises(SetupError, match="run r1 is worked on by another thread of this process"):
                pool.submit(enter).result()
        assert pool.submit(enter).result()
        with hold(lock), pytest.raises(SetupError, match="another thread"):
            pool.submit(inside.run, enter).result()
