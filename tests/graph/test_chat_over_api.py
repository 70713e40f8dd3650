"""Chat through `langgraph dev` with its own client: a question back instead of a crash, a message to a busy run. No engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_sync_client

from tuneloop.core.files import read_json
from tuneloop.core.run import RunSpec
from tuneloop.core.settings import load_settings
from tuneloop.graph.lock import hold
from tuneloop.tools.runs.inbox import waiting
from tuneloop.tools.runs.manifest import write_manifest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
URL, PORT = "http://127.0.0.1:18733", 18733


@pytest.fixture
def server(tmp_path: Path) -> Iterator[None]:
    """`langgraph dev` as the README starts it."""
    shutil.rmtree(ROOT / ".langgraph_api", ignore_errors=True)
    argv = [str(Path(sys.executable).with_name("langgraph")), "dev", "--no-browser", "--no-reload", "--port", str(PORT)]
    env = {**os.environ, "LANGGRAPH_CLI_NO_ANALYTICS": "1"}
    with (tmp_path / "log.txt").open("wb") as out:
        p = subprocess.Popen(argv, env=env, cwd=ROOT, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 120
        while not answers():
            assert time.monotonic() < deadline, (tmp_path / "log.txt").read_text()
            time.sleep(0.2)
        yield
    finally:
        p.terminate()
        p.wait(30)
        shutil.rmtree(ROOT / ".langgraph_api", ignore_errors=True)


def answers() -> bool:
    try:
        return httpx.get(f"{URL}/ok", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def words(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def test_a_question_back_and_a_busy_run(server: None) -> None:
    client = get_sync_client(url=URL)
    thread = client.threads.create()["thread_id"]
    for said, asked in (("hello", "Which benchmark"), ("make wordproblems better", "Which model")):
        state: Any = client.runs.wait(thread, "tuneloop", input=words(said))
        assert asked in state["messages"][-1]["content"]
    busy = client.threads.create()["thread_id"]
    run = load_settings().home.run(busy)
    write_manifest(run, RunSpec(benchmark="wordproblems", base_model="tiny"))
    with hold(run.lock):
        queued = client.runs.create(busy, "tuneloop", input={"run_id": busy, **words("stop after this one")})
        (message,) = waiting(run.inbox)
        assert read_json(message)["text"] == "stop after this one"
        client.runs.join(busy, queued["run_id"])
