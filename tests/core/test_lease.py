"""A home on a network belongs to one machine at a time; a machine is who shares a state folder."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tuneloop.core import lease
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.lease import STALE, hold_lease, lease_file
from tuneloop.core.locks import is_locked, lock_file
from tuneloop.core.state_folder import VARIABLE
from tuneloop.sandboxes.supervisor import lock_lease


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Within it, this is another machine."""

    @contextmanager
    def other() -> Iterator[None]:
        with monkeypatch.context() as there:
            there.setenv(VARIABLE, str(tmp_path / "other machine"))
            yield

    return other


def test_machines_that_see_each_others_locks_share_a_home(
    tmp_path: Path, elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "network_kind", lambda _: "NFS")
    with hold_lease(tmp_path), elsewhere(), hold_lease(tmp_path):
        assert len(list((tmp_path / "leases").iterdir())) == 2
        age(lease_file(tmp_path), STALE + 5)
    with elsewhere(), pytest.raises(InvalidRequestError, match="is used by"), hold_lease(tmp_path):
        pass  # nobody holds the lock of a fresh lease: it may be one that is not seen
    handle = lock_lease(str(lease_file(tmp_path)))  # as the supervisor of a job that outlives its orchestrator
    with elsewhere(), hold_lease(tmp_path):
        os.close(handle)


def age(file: Path, seconds: float) -> None:
    os.utime(file, (time.time() - seconds,) * 2)


def test_a_local_home_has_no_lease(tmp_path: Path) -> None:
    with hold_lease(tmp_path):
        assert list(tmp_path.iterdir()) == []


def test_a_second_machine_is_refused_and_leaves_nothing(network_home: Path, elsewhere) -> None:
    with hold_lease(network_home):
        with elsewhere(), pytest.raises(InvalidRequestError, match="one machine at a time"), hold_lease(network_home):
            pass
        assert [path.name for path in (network_home / "leases").iterdir()] == [lease_file(network_home).name]
        with hold_lease(network_home):
            pass
        assert lease_file(network_home).is_file(), "another process of this machine may still work"


def test_who_gives_no_sign_of_life_has_lost_it(network_home: Path, elsewhere) -> None:
    with hold_lease(network_home):
        mine = lease_file(network_home)
    age(mine, STALE + 5)
    with elsewhere(), hold_lease(network_home):
        pass
    with pytest.raises(InvalidRequestError, match="last sign of life 0 s ago"), hold_lease(network_home):
        pass


def test_it_is_kept_fresh(network_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT", 0.05)
    with hold_lease(network_home):
        age(lease_file(network_home), STALE - 10)
        until = time.monotonic() + 10
        while time.time() - lease_file(network_home).stat().st_mtime > STALE / 2:
            assert time.monotonic() < until
            time.sleep(0.02)


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_a_machine_that_slept_stops_when_another_went_on(
    network_home: Path, elsewhere, handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "BEAT", 0.2)
    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(KeyboardInterrupt), hold_lease(network_home):
            age(lease_file(network_home), STALE + 5)
            with elsewhere():
                lease_file(network_home).touch()
            for _ in range(2000):
                time.sleep(0.01)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("network_home", ["FUSE"], indirect=True)
def test_a_second_machine_cannot_ask_for_locks_that_it_does_not_see(network_home: Path, elsewhere) -> None:
    with hold_lease(network_home), elsewhere(), pytest.raises(InvalidRequestError, match="is used by"):
        is_locked(network_home / "runs" / "r1" / "lock")
    assert lock_file(network_home / "lock") != network_home / "lock"


def test_a_state_folder_of_somebody_else_or_on_a_network_is_refused(
    network_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    for place, said in ((tmp_path / "open", "only you may write"), (network_home / "state", "a network file system")):
        monkeypatch.setenv(VARIABLE, str(place))
        with pytest.raises(InvalidRequestError, match=said), hold_lease(network_home):
            pass
