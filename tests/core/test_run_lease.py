"""Two orchestrators never write one run: machines are processes with a name each that do not see each other's flock."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.waiting import until
from tuneloop.core import file_systems, files, run_lease
from tuneloop.core.errors import FencedError, InvalidRequestError
from tuneloop.core.run_lease import RunLease, find_holder, is_worked_on, newest

BEAT, FENCE, LOST = 0.1, 1.0, 2.0
ORCHESTRATOR = f"""
import os, sys, time
from pathlib import Path
from tuneloop.cli.main import print_error
from tuneloop.core import run_lease
from tuneloop.core.errors import FencedError, InvalidRequestError
from tuneloop.core.files import append_line, write_json
from tuneloop.graph.lifecycle import lock
run, name = Path(sys.argv[1]), sys.argv[2]
run_lease.BEAT, run_lease.FENCE, run_lease.LOST = {BEAT}, {FENCE}, {LOST}
run_lease.machine_of = lambda folder: name
run_lease.socket.gethostname = lambda: name
lock._acquire = lambda path: os.open("/dev/null", os.O_RDONLY)
try:
    with lock.hold_lock(run / "lock"):
        while not (run / "stop").exists():
            append_line(run / "events.jsonl", name)
            write_json(run / "experiment.json", name)
            time.sleep(0.01)
except (FencedError, InvalidRequestError) as e:
    sys.exit(print_error(str(e), 1))
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "r").mkdir()
    return tmp_path / "r"


@pytest.fixture
def machines(run: Path) -> Iterator[Any]:
    """Starts an orchestrator of the run on the machine of that name."""
    begun: list[subprocess.Popen[str]] = []

    def start(name: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", ORCHESTRATOR, str(run), name]
        begun.append(subprocess.Popen(argv, stderr=subprocess.PIPE, text=True))
        return begun[-1]

    yield start
    for process in begun:
        process.kill()
        process.communicate()


def writers(run: Path) -> list[str]:
    """Who wrote, in order, each once in a row."""
    file = run / "events.jsonl"
    names = file.read_text().split() if file.exists() else []
    return [name for i, name in enumerate(names) if i == 0 or names[i - 1] != name]


def works(run: Path, name: str) -> None:
    until(lambda: writers(run)[-1:] == [name], 60)


def test_killed_holder_is_followed_by_exactly_one(run: Path, machines: Any) -> None:
    first = machines("a")
    works(run, "a")
    first.kill()
    others = {name: machines(name) for name in ("b", "c")}
    until(lambda: len(writers(run)) == 2, 60)
    winner = writers(run)[1]
    (loser,) = [process for name, process in others.items() if name != winner]
    said = loser.communicate(timeout=60)[1].splitlines()
    assert loser.returncode == 1
    assert f"run r is worked on by {winner} since" in said[-1]
    assert "last worked on by a since" in said[0]
    assert writers(run) == ["a", winner]
    assert len(list((run / "lease").glob("[0-9]*"))) == 1


def test_a_stopped_holder_that_goes_on_writes_nothing_more(run: Path, machines: Any) -> None:
    first = machines("a")
    works(run, "a")
    first.send_signal(signal.SIGSTOP)
    machines("b")
    works(run, "b")
    first.send_signal(signal.SIGCONT)
    said = first.communicate(timeout=60)[1].splitlines()
    assert first.returncode == 1
    assert len(said) == 1
    assert "run r is worked on by b since" in said[0]
    assert writers(run) == ["a", "b"]
    assert json.loads((run / "experiment.json").read_text()) == "b"


def test_a_stopped_holder_that_nobody_followed_goes_on_with_the_next_number(run: Path, machines: Any) -> None:
    first = machines("a")
    works(run, "a")
    first.send_signal(signal.SIGSTOP)
    before = newest(run / "lease")[0]
    time.sleep(1.5 * FENCE)
    first.send_signal(signal.SIGCONT)
    until(lambda: newest(run / "lease")[0] == before + 1, 60)
    (run / "stop").touch()
    assert first.wait(60) == 0


def test_a_living_holder_is_named_and_a_released_run_is_free_at_once(run: Path, machines: Any) -> None:
    first = machines("a")
    works(run, "a")
    second = machines("b")
    assert "worked on by a since" in second.communicate(timeout=60)[1].splitlines()[-1]
    holder = find_holder(run)
    assert holder is not None
    assert (holder.host, is_worked_on(run)) == ("a", True)
    (run / "stop").touch()
    assert first.wait(60) == 0
    assert not is_worked_on(run)
    (run / "stop").unlink()
    last = newest(run / "lease")[0]
    machines("b")
    works(run, "b")
    assert newest(run / "lease")[0] == last + 1


def test_a_lease_that_cannot_be_read_is_waited_for_and_then_passed_over(run: Path, machines: Any) -> None:
    (run / "lease").mkdir()
    (run / "lease" / "7.json").write_text("{")
    machines("b")
    works(run, "b")
    assert newest(run / "lease")[0] == 8


def test_a_lease_folder_that_was_removed_is_made_again(run: Path) -> None:
    lease = RunLease(run)
    lease.file.unlink()
    lease.check()
    assert newest(run / "lease") == (2, lease.file)
    lease.release()
    assert files.GUARDS == {}


@pytest.mark.parametrize(
    ("installed", "kind", "free"),
    [
        ("host 1", 0xEF53, True),
        ("host 2", 0xEF53, False),
        ("", 0xEF53, False),
        ("host 1", 0x6969, False),  # NFS: another machine may have been cloned from this one
        ("host 1", 0x7461636F, False),  # OCFS2, a disk that several machines mount, which nobody lists
    ],
)
def test_after_a_restart_of_the_machine_a_run_on_its_own_disk_is_free_at_once(
    run: Path, monkeypatch: pytest.MonkeyPatch, installed: str, kind: int, free: bool
) -> None:
    monkeypatch.setattr(file_systems, "_kind", lambda *_: kind)
    monkeypatch.setattr(run_lease, "installation", lambda: installed)
    monkeypatch.setattr(run_lease, "_boot", lambda: "before")
    lease = RunLease(run)
    lease.over.set()
    lease.thread.join()
    files.GUARDS.clear()
    monkeypatch.setattr(run_lease, "_boot", lambda: "after")
    monkeypatch.setattr(run_lease, "installation", lambda: "host 1")
    assert is_worked_on(run)  # no machine restarts that fast
    silent = time.time() - (run_lease.FENCE + run_lease.LOST) / 2
    os.utime(lease.file, (silent, silent))
    monkeypatch.setattr(run_lease, "pause", lambda _: os.utime(lease.file, (1, 1)))  # it lives
    assert is_worked_on(run) != free
    if free:
        assert run_lease.await_free(run, run_lease.machine_of(run)) == 1
        return
    with pytest.raises(InvalidRequestError, match="is worked on by"):
        run_lease.await_free(run, run_lease.machine_of(run))


def test_signs_are_given_while_a_large_file_is_written_to_disk(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_lease, "BEAT", BEAT)
    lease, real = RunLease(run), os.fsync

    def slow(handle: int) -> None:
        sign = lease.file.stat().st_mtime_ns
        until(lambda: lease.file.stat().st_mtime_ns > sign, 60)
        real(handle)

    monkeypatch.setattr(os, "fsync", slow)
    files.write_atomic(run / "large.bin", b"x")
    lease.release()


def test_a_run_that_was_lost_while_the_disk_was_slow_is_not_written(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "Thread", NoThread)
    monkeypatch.setattr(files, "SLOW", 0.0)
    lease, real = RunLease(run), os.fsync

    def slow(handle: int) -> None:
        other = lease.file.read_text().replace(lease.machine, "another-machine")
        (run / "lease" / "12.json").write_text(other)
        real(handle)

    monkeypatch.setattr(os, "fsync", slow)
    with pytest.raises(FencedError):
        files.write_atomic(run / "result.json", "x")
    assert not (run / "result.json").exists()
    lease.release()


@dataclass
class Clock:
    """Stands in for the module `time`: one clock for all machines, moved by the schedule."""

    now: float = 0.0
    CLOCK_BOOTTIME: int = 7
    steps: list[Any] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def clock_gettime(self, _: int) -> float:
        return self.now


class NoThread:
    """No machine gives signs by itself: the schedule does."""

    def __init__(self, **_: object) -> None: ...

    def start(self) -> None: ...

    def join(self) -> None: ...


ACTIONS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["work", "leave", "take"]), st.sampled_from([0, 1, 20, 40, 70])),
    min_size=5,
    max_size=60,
)


@settings(max_examples=50)
@given(ACTIONS)
def test_in_any_order_of_events_only_the_last_one_that_took_it_writes(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, str, int]]
) -> None:
    """While one machine watches, the others go on; a pause of the schedule moves the clock."""
    run, clock, held, order = tmp_path_factory.mktemp("run"), Clock(), dict[str, RunLease](), list[str]()
    signs, taking = iter(range(1, 10**6)), set[str]()

    def act() -> None:
        name, do, seconds = actions.pop() if actions else ("", "", 10)
        clock.now += seconds
        if do == "take" and name not in {*held, *taking}:
            take(name)
        elif name in held:
            work(name)
            if do == "leave" and name in held:
                held.pop(name).release()

    def work(name: str) -> None:
        try:
            held[name].check()
        except FencedError:
            assert order[-1] != name
            held.pop(name)
        else:
            assert order[-1] == name, "it wrote after another one had taken the run"

    def take(name: str) -> None:
        taking.add(name)
        patch.setattr(run_lease, "machine_of", lambda _: name)
        patch.setattr(run_lease, "installation", lambda: name)
        with contextlib.suppress(InvalidRequestError):
            held[name] = RunLease(run)
            order.append(name)
        taking.discard(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_lease, "time", clock)
        patch.setattr(threading, "Thread", NoThread)
        patch.setattr(run_lease, "pause", lambda _: act())
        real = os.utime
        patch.setattr(os, "utime", lambda file: real(file, (next(signs),) * 2))
        while actions:
            act()
        for name in list(held):
            work(name)
    files.GUARDS.clear()


def test_others_may_read_who_works_on_a_run(run: Path) -> None:
    lease = RunLease(run)
    assert lease.file.stat().st_mode & 0o777 == 0o644
    lease.release()


def test_a_lease_and_a_lock_of_another_user_are_judged_by_signs_of_life(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = RunLease(run)

    def refuse(*_: object, **__: object) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(run_lease, "is_locked", refuse)  # root may open everything
    assert is_worked_on(run)
    monkeypatch.setattr(run_lease, "open_plain", refuse)
    assert is_worked_on(run)
    os.utime(lease.file, (1, 1))
    assert not is_worked_on(run)
    monkeypatch.undo()
    lease.release()
