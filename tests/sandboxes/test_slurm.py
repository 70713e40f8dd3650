"""What is Slurm's alone: options of sbatch, limits of partitions. Its jobs: `test_cluster.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.sandboxes import slurm
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
