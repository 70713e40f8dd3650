"""A lock works where the file system refuses locks: it lies on this machine's disk, under its own name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tuneloop.core.file_systems import network_kind, refuses_locks
from tuneloop.core.locks import exclusive, is_locked, lock_file, try_lock

HOLD = """
import sys, time
from pathlib import Path
from tuneloop.core import state_folder
state_folder.DEFAULT = sys.argv[2]
from tuneloop.core.locks import try_lock
with try_lock(Path(sys.argv[1])) as held:
    print(held is not None, flush=True)
    time.sleep(60)
"""


def test_on_a_local_disk_the_file_itself_is_locked(tmp_path: Path) -> None:
    assert lock_file(tmp_path / "lock") == tmp_path / "lock"
    assert not network_kind(tmp_path)


def test_a_folder_that_is_not_there_yet_is_asked_for_above(network_home: Path) -> None:
    assert network_kind(network_home / "runs" / "r1") in {"FUSE", "NFS"}


def test_locks_hold_between_processes(network_home: Path, tmp_path: Path) -> None:
    lock = network_home / "lock"
    argv = (sys.executable, "-c", HOLD, str(lock), str(tmp_path / "state"))
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "True"
        assert is_locked(lock)
        with try_lock(lock) as held:
            assert held is None
        other.kill()
    assert not is_locked(lock)
    with exclusive(lock):
        assert is_locked(lock)


def test_two_names_are_two_locks_and_links_are_none(network_home: Path) -> None:
    (network_home / "link").symlink_to(network_home)
    with exclusive(network_home / "one"):
        assert not is_locked(network_home / "two")
        assert is_locked(network_home / "link" / "one")
    assert (network_home / "one").is_file(), "who looks through a folder finds the lock by its name"


@pytest.mark.parametrize("network_home", ["FUSE"], indirect=True)
def test_where_locks_are_refused_they_lie_in_the_state_folder(network_home: Path, tmp_path: Path) -> None:
    assert refuses_locks(network_home)
    assert lock_file(network_home / "lock").is_relative_to(tmp_path / "state")
