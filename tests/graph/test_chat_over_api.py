"""Chat through `langgraph dev` with its own client: a question back instead of a crash, a message to a busy run. No engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_sync_client

from tests.chat_server import Hang, chat_server
from tests.graph.conftest import score
from tests.prepared import prepared
from tests.waiting import until
from tuneloop.core.directive_log import open_directives, read_conversation
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import load_settings
from tuneloop.graph.lifecycle.lock import hold_lock
from tuneloop.tools.benchmark_items.resolve import resolve_benchmark
from tuneloop.tools.runs.manifest import write_manifest
from tuneloop.tools.runs.messages import waiting

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".langgraph_api"
URL, PORT = "http://127.0.0.1:18733", 18733


@contextmanager
def dev(log: Path, *options: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """`langgraph dev` as the README starts it, until it answers."""
    argv = [str(Path(sys.executable).with_name("langgraph")), "dev", "--no-browser", "--port", str(PORT), *options]
    env = {**os.environ, "LANGGRAPH_CLI_NO_ANALYTICS": "1", **more}
    with log.open("ab") as out:
        p = subprocess.Popen(argv, env=env, cwd=ROOT, stdout=out, stderr=out)
    try:
        until(answers, 120)
        yield p
    finally:
        p.terminate()
        p.wait(120)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """Where servers of a test write; what they keep is theirs alone."""
    shutil.rmtree(KEPT, ignore_errors=True)
    yield tmp_path / "log.txt"
    shutil.rmtree(KEPT, ignore_errors=True)


def answers() -> bool:
    try:
        return httpx.get(f"{URL}/ok", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def words(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def question_back_and_busy_run(client: Any) -> None:
    thread = client.threads.create()["thread_id"]
    for said, asked in (("hello", "run benchmark="), ("run benchmark=wordproblems base_model=", "right is")):
        state: Any = client.runs.wait(thread, "tuneloop", input=words(said))
        assert asked in state["messages"][-1]["content"]
    busy = client.threads.create()["thread_id"]
    run = load_settings().home.run(busy)
    write_manifest(run, RunSpec(benchmark="wordproblems", base_model="tiny"))
    with hold_lock(run.lock):
        queued = client.runs.create(busy, "tuneloop", input={"run_id": busy, **words("finish")})
        (message,) = waiting(run.inbox)
        assert read_json(message)["text"] == "finish"
        client.runs.join(busy, queued["run_id"])


def begun(thread: str, model: Path) -> RunFolder:
    """A run whose base model is measured: next is the researcher."""
    home = load_settings().home
    spec = RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=2)
    run = prepared(home.run(thread), spec, resolve_benchmark("wordproblems", home, None), model)
    write_json(run.baseline / "scores.json", score(10).model_dump(mode="json"))
    write_json(run.baseline / "spent.json", {"seconds": 5.0})
    return run


def test_a_thread_that_is_interrupted_rolled_back_and_killed_goes_on(log: Path, tmp_path: Path) -> None:
    """Its researcher thinks all the time, with a model that never answers."""
    with chat_server(lambda _: Hang()) as chat:
        more = {"CHAT_MODEL": "m", "OPENAI_API_KEY": "k", "OPENAI_API_BASE": chat.url}
        with dev(log, "--no-reload", **more) as server:
            client = get_sync_client(url=URL)
            question_back_and_busy_run(client)
            thread = client.threads.create()["thread_id"]
            run = begun(thread, tmp_path)
            first = client.runs.create(thread, "tuneloop", input={"run_id": thread})
            until(lambda: len(chat.seen) == 1)
            second = told(client, run, "limit learning_rate<=1e-4", "interrupt")
            until(lambda: len(chat.seen) == 2)
            until(lambda: client.runs.get(thread, first["run_id"])["status"] == "interrupted", every=0.2)
            told(client, run, "use lora_rank=32", "rollback")
            until(lambda: len(chat.seen) == 3)
            until(lambda: second["run_id"] not in {r["run_id"] for r in client.runs.list(thread)}, every=0.2)
            until(lambda: b"use lora_rank=32" in kept_runs())
            server.kill()
            server.wait()
        with dev(log, "--no-reload", **more):
            until(lambda: len(chat.seen) == 4)
            said = client.runs.create(thread, "tuneloop", input={"run_id": thread, **words("finish")})
            until(lambda: len(open_directives(run.directives)) == 3)
            client.runs.cancel(thread, said["run_id"])
    assert [d.command.kind for d in open_directives(run.directives)] == ["bound", "use", "finish"]
    assert sum(line.who == "user" for line in read_conversation(run.conversation)) == 3


def told(client: Any, run: RunFolder, text: str, strategy: str) -> Any:
    given = {"run_id": run.id, **words(text)}
    return client.runs.create(run.id, "tuneloop", input=given, multitask_strategy=strategy)


def kept_runs() -> bytes:
    """The threads and runs that the server would find after a kill; it writes them down every ten seconds."""
    file = KEPT / ".langgraph_ops.pckl"
    return file.read_bytes() if file.is_file() else b""
