"""The proxy runs as long as a job needs it, is restarted after a kill, and leaves nothing behind."""

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

from tests.tools.llm_proxy.conftest import CANARY, JobEndpoint, MakeEndpoint, Provider, access_of
from tests.waiting import until
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.locks import try_lock
from tuneloop.tools.llm_proxy import launcher
from tuneloop.tools.llm_proxy.server import has_ended


def test_ends_after_the_job_and_removes_endpoints(endpoint: JobEndpoint) -> None:
    endpoint.ask()
    assert endpoint.alive
    endpoint.end_job()
    until(lambda: not endpoint.alive)
    assert sorted(p.name for p in endpoint.proxy.iterdir()) == ["lock", "log.txt", "start.lock"]
    assert len(endpoint.ledger) == 1
    assert (endpoint.proxy / "log.txt").read_text() == ""


def test_stays_until_a_late_answer_is_cached(endpoint: JobEndpoint, provider: Provider) -> None:
    """The job has ended, and its answer under way is paid for: it is cached for the next attempt."""

    def late(*_: Any) -> bool:
        provider.waiting.release()
        provider.gate.wait(60)
        return False

    provider.next = [late]
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(endpoint.ask, "a", sample=0)
        assert provider.waiting.acquire(timeout=20)
        endpoint.end_job()
        looks = turns(endpoint.pid)
        until(lambda: not endpoint.alive or turns(endpoint.pid) > looks + 30)
        provider.gate.set()
        assert asked.result().status_code == 200
    until(lambda: not endpoint.alive)
    assert len(list((endpoint.settings.home.cache / "answers").glob("*/*.json"))) == 1


def test_idle_live_job_keeps_its_endpoint(endpoint: JobEndpoint) -> None:
    job = endpoint.jobs / "build_data.1"
    job.mkdir()
    hours_ago = time.time() - 5 * 3600
    os.utime(endpoint.folder / "endpoint.json", (hours_ago, hours_ago))
    with try_lock(job / "lock"):
        assert not has_ended(endpoint.folder / "endpoint.json", hours_ago)
    assert has_ended(endpoint.folder / "endpoint.json", hours_ago), "no end was recorded"


def test_exhausted_descriptors_leave_other_jobs_alone(endpoint: JobEndpoint) -> None:
    """Connections without end, more than the proxy has descriptors for: it stays, and so do its launcher."""
    endpoint.ask()
    before, lines = endpoint.pid, []
    most = len(list(Path(f"/proc/{before}/fd").iterdir())) + 8
    _, hard = resource.prlimit(before, resource.RLIMIT_NOFILE)
    resource.prlimit(before, resource.RLIMIT_NOFILE, (most, hard))
    handle = os.open(endpoint.folder / "in", os.O_PATH)
    for _ in range(60):
        lines.append(socket.socket(socket.AF_UNIX))
        lines[-1].connect(f"/proc/self/fd/{handle}/socket")
    until(lambda: "OSError at socket.py" in (endpoint.proxy / "log.txt").read_text())
    looks = turns(before)
    until(lambda: turns(before) > looks + 20 or not endpoint.alive)
    for line in lines:
        line.close()
    assert endpoint.alive
    assert endpoint.ask().status_code == 200
    assert endpoint.pid == before


def turns(pid: int) -> int:
    """How often a process went to sleep and woke up again."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("voluntary"))
    return int(line.split()[1])


def test_ends_when_its_folder_is_gone(endpoint: JobEndpoint) -> None:
    running = Path(f"/proc/{endpoint.pid}")
    shutil.rmtree(endpoint.proxy)
    until(lambda: not running.exists())


def test_killed_proxy_is_restarted_while_an_endpoint_is_open(endpoint: JobEndpoint, provider: Provider) -> None:
    before = endpoint.pid
    endpoint.kill()
    launcher.keep_running(endpoint.run, endpoint.settings)
    until(lambda: launcher.listens(endpoint.folder / "in"))
    assert endpoint.pid != before
    assert endpoint.ask().status_code == 200, "with the token that the job knows"
    launcher.keep_running(endpoint.run, endpoint.settings)
    endpoint.end_job()
    until(lambda: not endpoint.alive)
    launcher.keep_running(endpoint.run, endpoint.settings)
    assert not endpoint.alive, "nobody needs it"


def test_no_restart_without_a_proxy(endpoint: JobEndpoint) -> None:
    other = endpoint.settings.home.run("other")
    launcher.keep_running(other, endpoint.settings)
    assert not (endpoint.settings.home.proxies / "other").exists()


def test_concurrent_opens_start_one_proxy(make_endpoint: MakeEndpoint) -> None:
    endpoint = make_endpoint()
    run, settings, access = endpoint.run, endpoint.settings, access_of(endpoint.settings)

    def open_again(_: int) -> str:
        return launcher.open_endpoint(
            run, settings, endpoint.folder, jobs=endpoint.jobs, name="build_data", access=access
        )

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(open_again, range(16))) == {endpoint.token}
    assert endpoint.ask().status_code == 200


def test_changed_access_holds_at_once(endpoint: JobEndpoint, make_endpoint: MakeEndpoint) -> None:
    again = make_endpoint(FT_STRONG_MODELS=["other"])
    assert again.token == endpoint.token
    until(lambda: again.ask(model="strong").status_code == 403)
    assert again.ask(model="other").status_code == 200


def test_folders_are_private(endpoint: JobEndpoint) -> None:
    for folder in (endpoint.settings.home.proxies, endpoint.proxy):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [p.name for p in (endpoint.folder / "in").iterdir()] == ["socket"], (
        "a sandbox sees the socket and nothing else"
    )


def test_long_path(make_endpoint: MakeEndpoint, tmp_path: Path) -> None:
    endpoint = make_endpoint(root=tmp_path / ("deep" * 30) / ("deeper" * 20))
    assert len(str(endpoint.socket)) > 250
    assert endpoint.ask().status_code == 200


def test_process_hides_the_key(endpoint: JobEndpoint) -> None:
    endpoint.ask()
    proc = Path(f"/proc/{endpoint.pid}")
    assert CANARY.encode() not in (proc / "cmdline").read_bytes() + (proc / "environ").read_bytes()
    assert (proc / "environ").stat().st_uid == 0, "not dumpable: its memory belongs to root"
    assert resource.prlimit(endpoint.pid, resource.RLIMIT_CORE) == (0, 0)


def test_failed_start(make_endpoint: MakeEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuneloop.sandboxes.detached.BOOT", "import sys; sys.exit('out of order')")
    with pytest.raises(InfrastructureError, match="did not start: out of order"):
        make_endpoint()


def test_proxy_that_does_not_listen(make_endpoint: MakeEndpoint, tmp_path: Path) -> None:
    (tmp_path / "home/runs/r/ledger.jsonl").mkdir(parents=True)
    with pytest.raises(InfrastructureError, match=r"does not listen; its log: .*log\.txt"):
        make_endpoint()


def test_slow_connections_do_not_delay_others(endpoint: JobEndpoint) -> None:
    lines = []
    for _ in range(200):
        line = socket.socket(socket.AF_UNIX)
        handle = os.open(endpoint.folder / "in", os.O_PATH)
        line.connect(f"/proc/self/fd/{handle}/socket")
        os.close(handle)
        line.sendall(b"POST /v1/chat/comp")
        lines.append(line)
    assert endpoint.ask().status_code == 200
    for line in lines:
        line.close()


def test_sigstop_and_sigcont(endpoint: JobEndpoint, provider: Provider) -> None:
    """A machine that sleeps: SIGSTOP, SIGCONT."""
    os.kill(endpoint.pid, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        asked: Any = pool.submit(endpoint.ask)
        os.kill(endpoint.pid, signal.SIGCONT)
        assert asked.result().status_code == 200
