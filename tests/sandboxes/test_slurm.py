"""What is Slurm's alone: options of sbatch, limits of partitions. Its jobs: `test_cluster.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.job import TICKET
from tuneloop.sandboxes import slurm
from tuneloop.sandboxes.cluster import Ended
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.sandboxes.slurm import SlurmSandbox, check_options


@pytest.mark.parametrize(
    "word", ["gpu", "-p", "--job-name=x", "--export=ALL", "--wra=id", "--Partition=x", "--clusters=x", "--help"]
)
def test_options_that_are_not_the_users_are_refused(word: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"^TUNELOOP_SLURM_OPTIONS: .*(right is|leave it out)"):
        check_options((word,))


@pytest.mark.parametrize(
    ("limit", "minutes"),
    [("infinite", None), ("1-00:00:00", 1440), ("12:00:00", 720), ("30:00", 30), ("0:30", 1), ("n/a", None)],
)
def test_limits_of_partitions(limit: str, minutes: int | None) -> None:
    assert slurm.parse_minutes(limit) == minutes


def test_without_slurm_a_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidRequestError, match="sbatch is not on PATH"):
        SlurmSandbox(ProcessSandbox()).check_reachable(tmp_path)


@pytest.mark.parametrize(
    ("scontrol", "sacct", "ended"),
    [
        ("echo JobState=FAILED", "exit 1", Ended("FAILED", means="refused")),
        ("exit 1", "echo OUT_OF_MEMORY", Ended("OUT_OF_MEMORY", means="memory")),
        ("exit 1", "echo CANCELLED by 1000", Ended("CANCELLED")),
        ("echo JobState=RUNNING", "echo RUNNING", None),
        ("exit 1", "exit 1", None),
    ],
)
def test_how_a_job_ended_is_asked_of_the_accounting_last(
    scontrol: str, sacct: str, ended: Ended | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, does in (("scontrol", scontrol), ("sacct", sacct)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / TICKET).write_text("7")
    assert slurm.CONTROLLER.ending(tmp_path) == ended
