"""kill -9 of the proxy in the middle of requests and streams: the job goes on, and nothing is booked twice or never."""

from __future__ import annotations

import json
import random
import shutil
import sys
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.tools.llm_proxy.conftest import JobEndpoint, MakeEndpoint, Provider, access_of
from tests.waiting import until
from tuneloop.core.job import Command, Limits, Sandbox
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox
from tuneloop.sandboxes.docker import DockerSandbox
from tuneloop.sandboxes.jobs import launch, wait
from tuneloop.sandboxes.landlock import LandlockSandbox
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.tools.llm_proxy import launcher

SANDBOXES: dict[str, Sandbox] = {
    "bubblewrap": BubblewrapSandbox(),
    "docker": DockerSandbox(),
    "landlock": LandlockSandbox(),
    "process": ProcessSandbox(allow_generated=True),
}

ASKS = Path(__file__).with_name("client_job.py")


def job(endpoint: JobEndpoint, count: int, script: Path = ASKS) -> Command:
    """The data script behind its door."""
    work = endpoint.run.experiment(1).work / "build"
    work.mkdir(parents=True, exist_ok=True)
    shutil.copy(script, work / "job.py")
    command = Command(
        argv=(sys.executable, "-I", str(work / "job.py"), str(count)),
        cwd=str(work),
        read=(sys.prefix, sys.base_prefix),
        write=(str(work),),
        generated=True,
        limits=Limits(seconds=300),
    )
    return launcher.with_endpoint(
        endpoint.run, endpoint.settings, endpoint.jobs, "build_data", command, access_of(endpoint.settings)
    )


def answers(endpoint: JobEndpoint) -> list[str]:
    found: list[str] = json.loads((endpoint.run.experiment(1).work / "build" / "answers.json").read_text())
    return found


def kill_again_and_again(endpoint: JobEndpoint, provider: Provider, sandbox: Sandbox, kills: int, seed: int) -> None:
    """Run the job, kill the proxy `kills` times while it is asked, then look at the books."""
    rng = random.Random(seed)
    done = threading.Event()

    def slow(h: Any, asked: dict[str, Any]) -> bool:
        done.wait(rng.random() * 0.05)
        return False

    provider.next = [slow] * 100_000
    provider.pieces = 20
    count = 15 * kills
    folder = launch(sandbox, endpoint.jobs, "build_data", job(endpoint, count))
    for _ in range(kills):
        goal = len(provider.seen) + rng.randint(1, 9)
        until(partial(reached, provider, goal), 60)
        done.wait(rng.random() * 0.02)
        endpoint.kill()
        launcher.keep_running(endpoint.run, endpoint.settings)
    assert wait(sandbox, folder).ok, (folder / "log.txt").read_text()
    for number, text in enumerate(answers(endpoint)):
        assert (text.count('"content": "w') == 20) if number % 3 == 0 else (f"echo question {number}" in text)
    check_books(endpoint, provider, count)


def reached(provider: Provider, goal: int) -> bool:
    """Whether so many requests have come."""
    return len(provider.seen) >= goal


def check_books(endpoint: JobEndpoint, provider: Provider, count: int) -> None:
    """Every request that reached the provider has one line, and every answer of the job."""
    entries = endpoint.ledger
    assert len({e.id for e in entries}) == len(entries)
    outcomes = Counter(e.outcome for e in entries)
    assert outcomes["answered"] + outcomes["cached"] >= count
    paid = [e for e in entries if e.paid]
    assert len(paid) >= len(provider.seen) - sum(e.tries - 1 for e in paid if e.tries)
    assert len(paid) <= len(provider.seen) + outcomes["killed"]
    asked = Counter(body["messages"][0]["content"] for body in provider.seen)
    spare = outcomes["killed"] + outcomes["cut"]
    assert sum(n - 1 for text, n in asked.items() if int(text.split()[1]) % 2) <= spare, (
        "what was kept is not paid again"
    )
    assert not (endpoint.proxy / "begun.jsonl").exists() or entries


@pytest.mark.parametrize("kind", sorted(SANDBOXES))
@pytest.mark.usefixtures("docker_host")
def test_job_survives_kills_of_the_proxy(make_endpoint: MakeEndpoint, provider: Provider, kind: str) -> None:
    kill_again_and_again(make_endpoint(), provider, SANDBOXES[kind], kills=7, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_job_survives_many_kills_of_the_proxy(make_endpoint: MakeEndpoint, provider: Provider, seed: int) -> None:
    kill_again_and_again(make_endpoint(), provider, SANDBOXES["bubblewrap"], kills=20, seed=seed)


def test_repeated_job_uses_the_cache(endpoint: JobEndpoint, provider: Provider) -> None:
    sandbox = SANDBOXES["bubblewrap"]
    assert wait(sandbox, launch(sandbox, endpoint.jobs, "build_data", job(endpoint, 12))).ok
    before, first = len(provider.seen), answers(endpoint)
    command = job(endpoint, 12).model_copy(update={"key": "again"})
    assert wait(sandbox, launch(sandbox, endpoint.jobs, "build_data", command)).ok
    assert len(provider.seen) - before == 6, "the even ones are drawn at random"
    assert answers(endpoint) == first
