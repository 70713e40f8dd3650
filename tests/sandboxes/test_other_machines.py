"""Jobs of another machine, whose lock is not seen here: they live while their supervisors give signs."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.waiting import until
from tuneloop.core.job import Command
from tuneloop.core.locks import is_locked
from tuneloop.core.run_lease import RunLease
from tuneloop.sandboxes import local
from tuneloop.sandboxes.local import named_in
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.sandboxes.supervisor import SIGN


def test_a_job_of_another_machine_lives_while_it_gives_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "LOST", 0.5)
    job, sandbox = tmp_path / "train.1", ProcessSandbox()
    job.mkdir()
    (job / "command.json").write_text("{}")
    (job / "lock").write_text("1 another-machine\n")
    for sign in (1, 2):
        os.utime(job / "lock", (sign, sign))
        assert sandbox.poll(job).state == "running"
        sandbox.stop(job)
        assert (job / "stop").is_file(), "its supervisor reads it there; nothing is killed here"
        until(lambda: sandbox.poll(job).state == "lost", 60)
    (job / "lock").write_text("1\n")
    assert sandbox.poll(job).state == "lost"


@pytest.mark.parametrize("taken", [True, False])
def test_a_supervisor_that_was_silent_ends_its_job_where_another_machine_took_the_run(
    tmp_path: Path, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "FENCE", 1.0)
    run, job, sandbox = tmp_path / "r", tmp_path / "r" / "jobs" / "sleep.1", ProcessSandbox()
    lease = RunLease(run)
    sandbox.start(job, Command(argv=("/bin/sleep", str(SIGN + 8)), cwd=str(tmp_path), write=(str(tmp_path),)))
    supervisor = int(until(lambda: named_in(job / "lock")[0]))
    os.kill(supervisor, signal.SIGSTOP)
    if taken:
        other = lease.file.read_text().replace(lease.machine, "another-machine")
        (run / "lease" / "12.json").write_text(other)
    time.sleep(SIGN + 1)
    os.kill(supervisor, signal.SIGCONT)
    until(lambda: not is_locked(job / "lock"), 120)
    end = sandbox.poll(job).exit
    assert end is not None
    assert end.reason == ("stopped" if taken else "finished")
    lease.release()
