"""The same run in other ways gives the same journal: tools over HTTP, `langgraph dev`, a training that was killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import noted_calls
from tests.conftest import SMALL, WISH, begin_small
from tuneloop.core.files import read_json
from tuneloop.core.layout import RunFolder
from tuneloop.tools.runs.journal import load_journal

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "tuneloop.cli.main")
SPEC = ("run", "--benchmark", "wordproblems", "--base-model", "tiny", "--loop-n", "1")


def story(run: RunFolder) -> list[dict[str, Any]]:
    """The journal without what a clock says."""
    rows = [e.model_dump(mode="json") for e in load_journal(run).experiments]
    for row in rows:
        row.pop("seconds")
        for name in ("seconds", "spent", "forecast"):
            row["training"].pop(name)
    return rows


def until(true: Callable[[], bool], seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.2)


@pytest.mark.soak
def test_a_killed_training_goes_on_from_its_checkpoint(whole_run, warm_home: Path) -> None:
    env = {**os.environ, "FT_FILE_PATH": str(warm_home)}
    run = RunFolder(warm_home / "runs" / "cut")
    folder = run.experiment(1)
    start = [*COMMAND, *SPEC, "--run-id", "cut", "--json"]
    p = subprocess.Popen(start, env=env, cwd=warm_home.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: any(folder.model.glob("checkpoint-*/trainer_state.json")))
    supervisor_pid = int((folder.jobs / "train.1" / "lock").read_text().split()[0])
    os.kill(supervisor_pid, signal.SIGKILL)
    assert p.wait(400) == 0
    assert (folder.jobs / "train.2" / "exit.json").is_file()
    assert story(run) == story(whole_run.run)


@contextmanager
def server(name: str, run_id: str, env: dict[str, str], port: int, calls: Path) -> Iterator[str]:
    noted = [sys.executable, str(noted_calls.THIS), str(calls), "tuneloop-mcp"]
    argv = [*noted, name, "--run", run_id, "--http", "--port", str(port)]
    p = subprocess.Popen(argv, env=env)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        p.terminate()
        p.wait(10)


@pytest.mark.soak
def test_with_all_servers_in_other_processes(short_run, warm_home: Path) -> None:
    env = {**os.environ, "FT_FILE_PATH": str(warm_home), "TUNELOOP_MCP_TOKEN": "sesame"}
    begin_small(warm_home, "apart")
    names, calls = ("params", "data", "training", "evaluation"), warm_home.parent / "calls.txt"
    with ExitStack() as stack:
        urls = {n: stack.enter_context(server(n, "apart", env, 18124 + i, calls)) for i, n in enumerate(names)}
        for url in urls.values():
            until(partial(answers, url), 60)
        over_http = {**env, "TUNELOOP_MCP_URLS": json.dumps(urls)}
        p = subprocess.run(
            [*COMMAND, "resume", "apart", "--json"], env=over_http, cwd=warm_home.parent, capture_output=True
        )
        assert p.returncode == 0, p.stderr.decode()
    assert story(RunFolder(warm_home / "runs" / "apart")) == story(short_run.run)
    assert {call.partition("_")[0] for call in noted_calls.noted_calls(calls)} == set(names)


def answers(url: str) -> bool:
    """Whether something listens there."""
    try:
        urllib.request.urlopen(url, timeout=2)
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def small(spec: dict[str, Any]) -> dict[str, Any]:
    """What the graph is given so that it does what the small run did."""
    limits = {name: int(SMALL[f"FT_{name.upper()}"]) for name in ("benchmark_limit", "upper_data_size_limit")}
    return {"spec": {**spec, **limits}, "messages": [{"role": "user", "content": WISH}]}


TOKEN = "sesame-open-sesame"
SIGNED = {"Authorization": f"Bearer {TOKEN}"}


def post(url: str, body: dict[str, Any], timeout: float = 30, headers: Mapping[str, str] = SIGNED) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        return json.load(reply)


def refused(url: str, **headers: str) -> int:
    """The status of a refusal."""
    with pytest.raises(urllib.error.HTTPError) as e:
        post(url, {}, headers={**SIGNED, **headers})
    return e.value.code


def test_over_the_api_of_langgraph_dev(short_run, warm_home: Path, tmp_path: Path) -> None:
    port, log = 18224, tmp_path / "log.txt"
    env = {**os.environ, "FT_FILE_PATH": str(warm_home), "LANGGRAPH_CLI_NO_ANALYTICS": "1", "TUNELOOP_MCP_TOKEN": TOKEN}
    shutil.rmtree(ROOT / ".langgraph_api", ignore_errors=True)
    argv = [str(Path(sys.executable).with_name("langgraph")), "dev", "--no-browser", "--no-reload", "--port", str(port)]
    with log.open("wb") as out:
        p = subprocess.Popen(argv, env=env, cwd=ROOT, stdout=out, stderr=out)
    base = f"http://127.0.0.1:{port}"
    try:
        until(lambda: answers(f"{base}/ok"), 120)
        threads = f"{base}/threads"
        assert refused(threads, Host="evil.example") == 421, "a name that was bound anew to this machine"
        assert refused(threads, Origin="https://evil.example") == 403, "a page elsewhere"
        assert refused(threads, Authorization="Bearer wrong") == 401
        assert refused(threads, **{"Authorization": "", "X-Auth-Scheme": "langsmith"}) == 401, "the hosted page's way"
        assert post(f"{base}/threads/search", {}) == [], "nothing came of these"
        assert [a["graph_id"] for a in post(f"{base}/assistants/search", {})] == ["tuneloop"]
        thread = post(threads, {}, headers={"X-Api-Key": TOKEN})["thread_id"]
        asked = small({"benchmark": "wordproblems", "base_model": "tiny", "loop_n": 1})
        state = post(f"{threads}/{thread}/runs/wait", {"assistant_id": "tuneloop", "input": asked}, 500)
        kept = [f for f in (ROOT / ".langgraph_api").rglob("*") if f.is_file()]
        assert not [f for f in (log, *kept) if TOKEN.encode() in f.read_bytes()]
    finally:
        p.terminate()
        p.wait(30)
        shutil.rmtree(ROOT / ".langgraph_api", ignore_errors=True)
    assert state["run_id"] == thread
    assert read_json(Path(state["report"]).with_suffix(".json"))["best"]["experiment"] == 1
    assert story(RunFolder(warm_home / "runs" / thread)) == story(short_run.run)
