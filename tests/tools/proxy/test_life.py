"""The proxy lives as long as a job needs it, survives kills by starting again, and leaves nothing behind."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.tools.proxy.conftest import CANARY, House, OpenHouse, Provider, access_of
from tests.waiting import until
from tuneloop.core.errors import WorldError
from tuneloop.core.locks import locked
from tuneloop.tools.proxy import doors
from tuneloop.tools.proxy.serve import over


def test_it_ends_when_the_job_is_over_and_takes_the_doors_along(house: House) -> None:
    house.ask()
    assert house.alive
    house.end_job()
    until(lambda: not house.alive)
    assert sorted(p.name for p in house.place.iterdir()) == ["lock", "log.txt", "start.lock"]
    assert len(house.ledger) == 1
    assert (house.place / "log.txt").read_text() == ""


def test_it_stays_until_an_answer_on_its_way_is_kept(house: House, provider: Provider) -> None:
    """The job is over, and whoever goes on with it comes much later: what was asked is paid for."""

    def late(*_: Any) -> bool:
        provider.waiting.release()
        provider.gate.wait(60)
        return False

    provider.next = [late]
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(house.ask, "a", sample=0)
        assert provider.waiting.acquire(timeout=20)
        house.end_job()
        looks = turns(house.pid)
        until(lambda: not house.alive or turns(house.pid) > looks + 30)
        provider.gate.set()
        assert asked.result().status_code == 200
    until(lambda: not house.alive)
    assert len(list((house.settings.home.cache / "answers").glob("*/*.json"))) == 1


def test_a_job_that_lives_may_be_silent_for_long(house: House) -> None:
    job = house.jobs / "build_data.1"
    job.mkdir()
    hours_ago = time.time() - 5 * 3600
    os.utime(house.folder / "door.json", (hours_ago, hours_ago))
    with locked(job / "lock"):
        assert not over(house.folder / "door.json", hours_ago)
    assert over(house.folder / "door.json", hours_ago), "nobody told its end"


def test_who_takes_all_descriptors_harms_nobody_else(house: House) -> None:
    """Connections without end, more than the proxy has descriptors for: it stays, and so do its doors."""
    house.ask()
    before, lines = house.pid, []
    most = len(list(Path(f"/proc/{before}/fd").iterdir())) + 8
    _, hard = resource.prlimit(before, resource.RLIMIT_NOFILE)
    resource.prlimit(before, resource.RLIMIT_NOFILE, (most, hard))
    handle = os.open(house.folder / "in", os.O_PATH)
    for _ in range(60):
        lines.append(socket.socket(socket.AF_UNIX))
        lines[-1].connect(f"/proc/self/fd/{handle}/socket")
    until(lambda: "OSError at socket.py" in (house.place / "log.txt").read_text())
    looks = turns(before)
    until(lambda: turns(before) > looks + 20 or not house.alive)
    for line in lines:
        line.close()
    assert house.alive
    assert house.ask().status_code == 200
    assert house.pid == before


def turns(pid: int) -> int:
    """How often a process went to sleep and woke up again."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("voluntary"))
    return int(line.split()[1])


def test_a_folder_that_is_gone_is_the_end(house: House) -> None:
    running = Path(f"/proc/{house.pid}")
    shutil.rmtree(house.place)
    until(lambda: not running.exists())


def test_a_killed_one_is_started_again_while_a_door_is_open(house: House, provider: Provider) -> None:
    before = house.pid
    house.kill()
    doors.keep_open(house.run, house.settings)
    until(lambda: doors.listens(house.folder / "in"))
    assert house.pid != before
    assert house.ask().status_code == 200, "with the token that the job knows"
    doors.keep_open(house.run, house.settings)
    house.end_job()
    until(lambda: not house.alive)
    doors.keep_open(house.run, house.settings)
    assert not house.alive, "nobody needs it"


def test_where_no_proxy_was_there_is_nothing_to_keep(house: House) -> None:
    other = house.settings.home.run("other")
    doors.keep_open(other, house.settings)
    assert not (house.settings.home.proxies / "other").exists()


def test_opened_by_many_at_once_there_is_one(open_house: OpenHouse) -> None:
    house = open_house()
    with ThreadPoolExecutor(8) as pool:
        plate = {"jobs": str(house.jobs), "name": "build_data", "access": access_of(house.settings).model_dump()}
        tokens = {
            pool.submit(doors.open_door, house.run, house.settings, house.folder, plate).result() for _ in range(16)
        }
    assert tokens == {house.token}
    assert house.ask().status_code == 200


def test_a_changed_allow_list_holds_at_once(house: House, open_house: OpenHouse) -> None:
    again = open_house(FT_STRONG_MODELS=["other"])
    assert again.token == house.token
    until(lambda: again.ask(model="strong").status_code == 403)
    assert again.ask(model="other").status_code == 200


def test_nobody_else_gets_near_the_sockets(house: House) -> None:
    for folder in (house.settings.home.proxies, house.place):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [p.name for p in (house.folder / "in").iterdir()] == ["socket"], "a sandbox sees the socket and nothing else"


def test_the_path_may_be_long(open_house: OpenHouse, tmp_path: Path) -> None:
    house = open_house(root=tmp_path / ("deep" * 30) / ("deeper" * 20))
    assert len(str(house.socket)) > 250
    assert house.ask().status_code == 200


def test_the_key_is_in_no_process_that_others_may_read(house: House) -> None:
    house.ask()
    proc = Path(f"/proc/{house.pid}")
    assert CANARY.encode() not in (proc / "cmdline").read_bytes() + (proc / "environ").read_bytes()
    assert (proc / "environ").stat().st_uid == 0, "not dumpable: its memory belongs to root"
    assert resource.prlimit(house.pid, resource.RLIMIT_CORE) == (0, 0)


def test_one_that_cannot_start_is_told(open_house: OpenHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuneloop.sandboxes.detached.BOOT", "import sys; sys.exit('out of order')")
    with pytest.raises(WorldError, match="did not start: out of order"):
        open_house()


def test_one_that_does_not_listen_is_told(open_house: OpenHouse, tmp_path: Path) -> None:
    (tmp_path / "home/runs/r/ledger.jsonl").mkdir(parents=True)
    with pytest.raises(WorldError, match=r"does not listen; its log: .*log\.txt"):
        open_house()


def test_a_door_that_is_slow_holds_up_nobody(house: House) -> None:
    lines = []
    for _ in range(200):
        line = socket.socket(socket.AF_UNIX)
        handle = os.open(house.folder / "in", os.O_PATH)
        line.connect(f"/proc/self/fd/{handle}/socket")
        os.close(handle)
        line.sendall(b"POST /v1/chat/comp")
        lines.append(line)
    assert house.ask().status_code == 200
    for line in lines:
        line.close()


def test_stopped_and_gone_on_with(house: House, provider: Provider) -> None:
    """A machine that sleeps: SIGSTOP, SIGCONT."""
    os.kill(house.pid, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        asked: Any = pool.submit(house.ask)
        os.kill(house.pid, signal.SIGCONT)
        assert asked.result().status_code == 200
