"""A job whose supervisor is killed once at every boundary: writes, renames, forks of starter, watcher and supervisor."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.waiting import until
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.job import Command, JobStatus, Limits, Sandbox
from tuneloop.sandboxes import local
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox
from tuneloop.sandboxes.jobs import launch, newest_attempt
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.tools.jobs.machine import ENGINES

from .world import FORM, HERE, LONG, leftovers, say, twice_alive

pytestmark = pytest.mark.slow
KINDS = {"process": ProcessSandbox, "bubblewrap": BubblewrapSandbox}
# The short form takes each sandbox and each way to begin once.
WAYS = [(kind, warm) for kind in KINDS for warm in (False, True) if FORM is LONG or (kind == "bubblewrap") == warm]
INJECTED = """import sys; sys.path.append({here!r}); import boundaries
killer = boundaries.Killer({home!r}, {seen!r}, {past!r})
boundaries.install(killer); boundaries.forks(killer)
"""
# Enough output for the log to be cut, and work that shows how often it was done.
JOB = """import os, sys
print("x" * 5000, flush=True)
with open("begun", "a") as f: f.write("x")
with open("part", "w") as f: f.write("whole"); f.flush(); os.fsync(f.fileno())
os.replace("part", "result")
print("end")
"""
REACHED = {"before fork", "after fork,", "after pwrite", "after write", "inside write", "after open", "after replace"}


@pytest.mark.parametrize(("kind", "warm"), WAYS, ids=lambda way: {False: "cold", True: "warm"}.get(way, way))
def test_supervisor_killed_at_every_boundary(kind: str, warm: bool, tmp_path: Path, monkeypatch, capsys) -> None:
    home, seen, past = tmp_path / "home", tmp_path / "seen", tmp_path / "past"
    (home / "work").mkdir(parents=True)
    for file in (seen, past):
        file.touch()
    sandbox, jobs = KINDS[kind](), home / "jobs"
    worker = start_worker(sandbox, tmp_path / "worker") if warm else None
    injected = INJECTED.format(here=str(HERE), home=str(home), seen=str(seen), past=str(past))
    monkeypatch.setattr(local, "BOOT", injected + local.BOOT)
    ends, kills = [], 0
    while True:
        killed_before = len(seen.read_text().splitlines())
        status = one_attempt(sandbox, jobs, command(home, warm))
        ends.append(status.state)
        kills = len(seen.read_text().splitlines())
        if kills == killed_before:
            break
        assert status.state in ("absent", "lost", "over"), status
        assert kills - killed_before <= 2, "one process of a supervisor at a time, or a job's own child beside it"
    if worker is not None:
        sandbox.stop(worker, grace=0)
        until(lambda: sandbox.poll(worker).state != "running")
    with capsys.disabled():
        say(f"{kind}{' warm' if warm else ''}: {kills} boundaries, {len(ends)} attempts, {ends.count('lost')} lost")
    assert status.exit is not None
    assert status.exit.ok
    assert {" ".join(name.split()[:2]) for name in seen.read_text().splitlines()} >= REACHED
    assert kills >= 15
    assert past.read_text() == ""
    assert (home / "work" / "result").read_text() == "whole"
    last = newest_attempt(jobs, "job")
    assert last is not None
    log = (last / "log.txt").read_text()
    assert log.endswith("end\n")
    assert "cold start" not in log
    assert leftovers(home, 3) == []


def command(home: Path, warm: bool) -> Command:
    """The job, forked by the worker beside the home when it is warm."""
    script = home.parent / "job.py"
    script.write_text(JOB)
    return Command(
        argv=(sys.executable, str(script)),
        cwd=str(home / "work"),
        read=(sys.prefix, sys.base_prefix, str(script)),
        write=(str(home / "work"),),
        limits=Limits(seconds=30, log=2000),
        worker=str(home.parent / "worker" / "own" / "socket") if warm else "",
        key="same",
    )


def start_worker(sandbox: Sandbox, root: Path) -> Path:
    """A worker that has imported nothing; its own supervisor is left alone."""
    for name in ("own", "preload"):
        (root / name).mkdir(parents=True)
    (root / "preload" / "preload.py").touch()
    asked = Command(
        argv=(sys.executable, str(ENGINES / "worker.py"), str(root / "preload"), "600"),
        cwd=str(root / "own"),
        read=(sys.prefix, sys.base_prefix, str(ENGINES), str(root.parent / "job.py")),
        write=(str(root), str(root.parent / "home" / "work")),
    )
    (root.parent / "job.py").write_text(JOB)
    folder = launch(sandbox, root / "workers", "worker", asked)
    until((root / "own" / "socket").exists)
    return folder


def one_attempt(sandbox: Sandbox, jobs: Path, asked: Command) -> JobStatus:
    """Launch, look until it is over or lost; never two attempts at once."""
    try:
        folder = launch(sandbox, jobs, "job", asked, retry=True)
    except InfrastructureError as e:
        assert "did not start" in str(e)
        folder = newest_attempt(jobs, "job") or jobs / "job.1"

    def ended() -> JobStatus | None:
        assert list(twice_alive(jobs.parent)) == []
        status = sandbox.poll(folder)
        if status.exit is not None:
            json.loads((folder / "exit.json").read_text())
        return None if status.state == "running" else status

    found: JobStatus = until(ended, 20, 0.01)
    return found
