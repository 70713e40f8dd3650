"""Jobs of another machine, whose lock is not seen here: they live while their supervisors give signs."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.waiting import until
from tuneloop.core.job import Command
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import is_locked
from tuneloop.core.run_lease import LOST, RunLease
from tuneloop.sandboxes import local, supervisor
from tuneloop.sandboxes.jobs import stop_and_wait
from tuneloop.sandboxes.local import named_in
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.sandboxes.supervisor import SIGN, Supervisor
from tuneloop.tools.runs.messages import live_jobs


def test_a_job_of_another_machine_lives_while_it_gives_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "LOST", 0.5)
    monkeypatch.setattr(local, "network_kind", lambda _: "NFS")
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


def test_on_a_local_file_system_a_job_from_before_a_reboot_is_lost_at_once(tmp_path: Path) -> None:
    (tmp_path / "command.json").write_text("{}")
    (tmp_path / "lock").write_text("1 boot-before\n")
    stop_and_wait(ProcessSandbox(), tmp_path)
    assert ProcessSandbox().poll(tmp_path).state == "lost"


def test_where_machines_share_a_file_system_stopping_waits_longer_than_a_dead_one_counts_as_alive() -> None:
    assert ProcessSandbox().stop_seconds > LOST


@pytest.mark.parametrize("taken", [True, False])
def test_a_supervisor_that_was_silent_ends_its_job_where_another_machine_took_the_run(
    tmp_path: Path, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "FENCE", 1.0)
    run, job, sandbox = tmp_path / "r", tmp_path / "r" / "jobs" / "sleep.1", ProcessSandbox()
    lease = RunLease(run)
    sandbox.start(job, Command(argv=("/bin/sleep", str(SIGN + 8)), cwd=str(tmp_path), write=(str(tmp_path),)))
    pid = int(until(lambda: named_in(job / "lock")[0]))
    os.kill(pid, signal.SIGSTOP)
    if taken:
        other = lease.file.read_text().replace(lease.machine, "another-machine")
        (run / "lease" / "12.json").write_text(other)
    time.sleep(SIGN + 1)
    os.kill(pid, signal.SIGCONT)
    until(lambda: not is_locked(job / "lock"), 120)
    end = sandbox.poll(job).exit
    assert end is not None
    assert end.reason == ("stopped" if taken else "finished")
    lease.release()


@pytest.mark.parametrize("runner", [0, 7])
def test_a_supervisor_on_a_node_of_a_cluster_leaves_the_end_to_its_runner(tmp_path: Path, runner: int) -> None:
    lease = RunLease(tmp_path)
    with (tmp_path / "lock").open("w") as lock:
        keeping = object.__new__(Supervisor)
        keeping.signed = time.clock_gettime(time.CLOCK_BOOTTIME) - 1000
        plan = {"lock": lock.fileno(), "lease": "", "fence": 1.0, "runner": runner, "machine": "node"}
        vars(keeping)["plan"] = SimpleNamespace(**plan, run_lease=str(tmp_path / "lease"))
        assert keeping.is_taken_over() == (runner == 0)
    lease.release()


def test_a_supervisor_gives_signs_while_results_are_written_to_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "lock"
    with lock.open("w") as f:
        os.utime(lock, (1, 1))
        keeping = object.__new__(Supervisor)
        keeping.signed = time.clock_gettime(time.CLOCK_BOOTTIME) - SIGN
        plan = {"lock": f.fileno(), "lease": "", "fence": 50.0, "runner": 0, "write": [str(tmp_path)]}
        vars(keeping)["plan"] = SimpleNamespace(**plan)
        monkeypatch.setattr(supervisor, "fsync_below", lambda _: until(lambda: lock.stat().st_mtime > 1, 60))
        keeping.fsync_results()


@pytest.mark.parametrize("silent", [0, 2 * LOST])
def test_jobs_of_another_machine_are_found_by_their_newest_sign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: float
) -> None:
    monkeypatch.setattr(local, "network_kind", lambda _: "NFS")
    job = tmp_path / "experiments" / "001" / "jobs" / "train.1"
    job.mkdir(parents=True)
    (job / "lock").write_text("1 another-machine\n")
    now = time.time()
    os.utime(job / "lock", (now - silent, now - silent))
    assert live_jobs(RunFolder(tmp_path)) == ([] if silent else [job])
    (job / "exit.json").write_text("{}")
    assert live_jobs(RunFolder(tmp_path)) == []
