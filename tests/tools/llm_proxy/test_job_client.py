"""The client of data scripts, in the sandbox, with the engine's Python and the real proxy: nothing is paid twice."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import linked_home
from tests.prepared import prepared, wordproblems
from tests.tools.llm_proxy.conftest import CANARY, MakeEndpoint, Provider, access_of, error, send
from tests.tools.llm_proxy.test_kills import SANDBOXES, reached
from tests.waiting import until
from tuneloop.core.errors import InfrastructureError, RecipeError
from tuneloop.core.job import Command, JobStatus
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.mcp_servers.data import DataTools
from tuneloop.mcp_servers.scope import Scope
from tuneloop.sandboxes.jobs import launch, wait
from tuneloop.tools.data_script.run import script_findings, script_result, start_script
from tuneloop.tools.engines import Engine
from tuneloop.tools.jobs.progress import told_progress
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.llm_proxy import launcher
from tuneloop.tools.llm_proxy.batch import CLIENT
from tuneloop.tools.llm_proxy.launcher import keep_running, proxy_folder
from tuneloop.tools.llm_proxy.ledger import read_ledger, sums_by_job

DOCS = Path(__file__).parents[3] / "docs" / "models.md"
QUESTIONS = 24
COPIES = """import argparse, json, os
from tuneloop_models import ask_many
parser = argparse.ArgumentParser()
parser.add_argument("--debug", action="store_true")
debug = parser.parse_args().debug
found = ask_many([f"question {i}" for i in range(24)], temperature=1)
rows = [{"instruction": a.text, "input": "", "output": a.text} for a in found if a.text is not None]
json.dump(rows, open("data.json", "w"))
"""
Make = Callable[..., RunTools]


@pytest.fixture
def make(tmp_path: Path, llamafactory: Engine, tiny: Path, provider: Provider) -> Make:
    """`make(SETTING=…)`: the tools of a prepared run that may ask `strong`, with 24 questions."""

    def build(**more: Any) -> RunTools:
        home = linked_home(tmp_path / "home")
        given = {"OPENAI_API_KEY": CANARY, "OPENAI_API_BASE": provider.url, "FT_STRONG_MODELS": "strong"}
        settings = Settings(**{"FT_FILE_PATH": home, "FT_API_MAX_WORKERS": 4, **given, **more})
        run = RunFolder(settings.home.runs / "r")
        run.experiment(1).jobs.mkdir(parents=True)
        questions = run.root / "datasets" / "questions"
        questions.mkdir(parents=True)
        rows = [{"question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(QUESTIONS)]
        (questions / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        spec = RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=1)
        prepared(run, spec, wordproblems(settings.home), tiny)
        return RunTools(run, settings)

    return build


def start(run_tools: RunTools, code: str, *, debug: bool = False) -> str:
    folder = run_tools.run.experiment(1)
    folder.script.write_text(code)
    assert script_findings(run_tools, code) == []
    return start_script(run_tools, folder, debug=debug)


def over(run_tools: RunTools, name: str) -> tuple[JobStatus, Path]:
    folder = run_tools.run.experiment(1)
    status, job = until(
        lambda: found if (found := run_tools.status(folder.jobs, name))[0].state != "running" else None, 90
    )
    return status, job


def result(run_tools: RunTools, name: str) -> list[Any]:
    status, job = over(run_tools, name)
    file = script_result(run_tools, run_tools.run.experiment(1), status, job, debug=name == "dry_run")
    found: list[Any] = json.loads(file.read_text())
    return found


def kill_the_job(run_tools: RunTools, script: Path) -> None:
    """kill -9 of the script itself, as a full memory would."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if str(script).encode() in words[1:3] and b"python" in words[0]:
            os.kill(int(entry.parts[2]), signal.SIGKILL)
            return
    raise AssertionError("the script does not run")


def kill_the_proxy(run_tools: RunTools) -> None:
    place = str(proxy_folder(run_tools.run, run_tools.settings)).encode()
    pids = [
        p.parts[2] for p in Path("/proc").glob("[0-9]*/cmdline") if place in read(p) and b"llm_proxy.server" in read(p)
    ]
    os.kill(int(pids[0]), signal.SIGKILL)


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def contents(provider: Provider) -> Counter[str]:
    """How often each question reached the provider."""
    return Counter(request["messages"][-1]["content"] for request in provider.seen)


def solve(h: Any, request: dict[str, Any]) -> bool:
    """As a strong model would; every third question gets a wrong answer."""
    number = int(re.search(r"What is (\d+)", request["messages"][-1]["content"])[1])  # type: ignore[index]
    answer = json.dumps({"solution": f"One more than {number}.", "answer": str(number + 1 + (number % 3 == 0))})
    choice = {"message": {"content": f"```json\n{answer}\n```"}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    return send(h, 200, {"model": "strong", "choices": [choice], "usage": usage})


def test_example_of_the_docs(make: Make, provider: Provider) -> None:
    code = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S)[0]
    run_tools = make()
    provider.next = [solve] * 1000
    start(run_tools, code, debug=True)
    tried = result(run_tools, "dry_run")
    assert len(tried) == 6, "of ten that a try asks, four have a wrong answer"
    assert sum(contents(provider).values()) == 6 + 4 * 3
    outcome = DataTools(Scope(run_tools.run, run_tools.settings)).try_result(1)
    assert (outcome["rows"], outcome["models"]["requests"], outcome["models"]["tokens_out"]) == (6, 18, 90)
    start(run_tools, code)
    rows = result(run_tools, "build_data")
    assert len(rows) == 16
    assert rows[0] == {"instruction": "What is 1 + 1?", "input": "", "output": "One more than 1.\n\\boxed{2}"}
    assert rows[: len(tried)] == tried
    assert sum(contents(provider).values()) == 16 + 8 * 3, "the requests of the try are cached"
    job = run_tools.run.experiment(1).jobs / "build_data.1"
    assert told_progress(job / "log.txt") == {
        "done": 24,
        "total": 24,
        "unit": "answers",
        "note": "10 from before, 8 without",
    }
    assert CANARY not in (job / "log.txt").read_text()


@pytest.mark.parametrize("kind", sorted(SANDBOXES))
@pytest.mark.usefixtures("docker_host")
def test_every_sandbox(make_endpoint: MakeEndpoint, provider: Provider, kind: str) -> None:
    endpoint, sandbox = make_endpoint(), SANDBOXES[kind]
    work = endpoint.run.experiment(1).work / "build"
    work.mkdir(parents=True)
    (work / "process_data.py").write_text(COPIES)
    command = Command(
        argv=(sys.executable, str(work / "process_data.py")),
        cwd=str(work),
        env={"PYTHONPATH": str(CLIENT.parent), "PYTHONSAFEPATH": "1"},
        read=(sys.prefix, sys.base_prefix, str(CLIENT)),
        write=(str(work),),
        generated=True,
    )
    inside = launcher.with_endpoint(
        endpoint.run, endpoint.settings, endpoint.jobs, "build_data", command, access_of(endpoint.settings)
    )
    folder = launch(sandbox, endpoint.jobs, "build_data", inside)
    assert wait(sandbox, folder).ok, (folder / "log.txt").read_text()
    assert len(json.loads((work / "data.json").read_text())) == len(provider.seen) == 24


def held_up(make: Make, provider: Provider) -> tuple[RunTools, str, threading.Event]:
    """A script with eight answers and four on their way, its job, and what lets these come."""
    run_tools, hold = make(), threading.Event()

    def late(*_: Any) -> bool:
        provider.waiting.release()
        hold.wait(60)
        return False

    provider.next = [lambda *_: False] * 8 + [late] * 4
    name = start(run_tools, COPIES)
    for _ in range(4):
        assert provider.waiting.acquire(timeout=60)
    return run_tools, name, hold


def test_killed_script_pays_nothing_twice(make: Make, provider: Provider) -> None:
    """Killed while answers are on their way: these, too, are there for the next attempt."""
    run_tools, name, hold = held_up(make, provider)
    kill_the_job(run_tools, run_tools.run.experiment(1).script)
    status, _ = over(run_tools, name)
    assert status.exit is not None
    assert status.exit.killed
    hold.set()
    until(lambda: len(list(read_ledger(run_tools.run.ledger))) == 12)
    assert start(run_tools, COPIES) == name
    rows = result(run_tools, name)
    assert [row["output"] for row in rows] == [f"echo question {i}" for i in range(24)]
    assert contents(provider) == {f"question {i}": 1 for i in range(24)}
    (booked,) = sums_by_job(run_tools.run.ledger).values()
    assert (booked.requests, booked.cached) == (24, 12)


def test_killed_proxy_repeats_only_requests_under_way(make: Make, provider: Provider) -> None:
    run_tools, name, hold = held_up(make, provider)
    kill_the_proxy(run_tools)
    hold.set()
    keep_running(run_tools.run, run_tools.settings)
    rows = result(run_tools, name)
    assert [row["output"] for row in rows] == [f"echo question {i}" for i in range(24)]
    assert sum(contents(provider).values()) == 24 + 4
    assert max(contents(provider).values()) == 2


def test_provider_errors_lose_no_row(make: Make, provider: Provider) -> None:
    def cut(h: Any, _: dict[str, Any]) -> bool:
        h.send_response(200)
        h.send_header("Content-Length", "1000")
        h.end_headers()
        h.wfile.write(b'{"choices": [')
        h.close_connection = True
        return True

    def hang_up(h: Any, _: dict[str, Any]) -> bool:
        h.connection.close()
        raise OSError

    busy = error(429, Retry_After="1")
    provider.next = [cut, busy, hang_up, error(500), error(503, Retry_After="1"), lambda h, _: send(h, 200, b"<html>")]
    run_tools = make()
    rows = result(run_tools, start(run_tools, COPIES))
    assert [row["output"] for row in rows] == [f"echo question {i}" for i in range(24)]


def test_script_ends_well_at_the_limit(make: Make, provider: Provider) -> None:
    run_tools = make(TUNELOOP_API_JOB_LIMITS={"requests": 5}, FT_API_MAX_WORKERS=1)
    rows = result(run_tools, start(run_tools, COPIES))
    assert [row["output"] for row in rows] == [f"echo question {i}" for i in range(5)]
    log = (run_tools.run.experiment(1).jobs / "build_data.1" / "log.txt").read_text()
    assert log.count("this job may use 5 requests") == 1
    assert "this job has used 5 requests of 5, 75 tokens, 0 money" in log
    turned = COPIES.replace("range(24)", "range(23, -1, -1)")
    rows = result(run_tools, start(run_tools, turned))
    assert [row["output"] for row in rows] == [f"echo question {i}" for i in range(4, -1, -1)], "what was kept is free"
    assert len(provider.seen) == 5


def test_refused_key_pauses_the_run(make: Make, provider: Provider) -> None:
    run_tools = make()
    provider.next = [*[lambda *_: False] * 8, *[error(401)] * 100]
    name = start(run_tools, COPIES)
    with pytest.raises(
        InfrastructureError, match=r"refuses the key; right is one in OPENAI_API_KEY.*no answer is paid twice"
    ):
        result(run_tools, name)
    provider.next, before = [], len(provider.seen)
    assert start(run_tools, COPIES) == name
    assert len(result(run_tools, name)) == 24
    assert len(provider.seen) - before == 16
    assert over(run_tools, name)[1].name == "build_data.2"
    start(run_tools, COPIES)
    assert over(run_tools, name)[1].name == "build_data.2", "what is over is over"


def test_exit_status_75_without_requests_is_a_failure(make: Make) -> None:
    run_tools = make()
    name = start(run_tools, COPIES.replace("found = ", "raise SystemExit(75)\nfound = "))
    with pytest.raises(RecipeError, match=r"process_data.py failed. build_data.1: finished, exit status 75"):
        result(run_tools, name)


def test_script_without_any_answer_fails(make: Make, provider: Provider) -> None:
    """It ended well and wrote rows; without one answer they are not what was planned."""
    run_tools = make()
    provider.next = [error(400, "no such field", "bad_field")] * 100
    name = start(run_tools, COPIES, debug=True)
    with pytest.raises(RecipeError, match=r"asked models 10 times and got no answer: 400 bad_field\.") as caught:
        result(run_tools, name)
    assert caught.value.culprit == "script"
    assert "no such field" in str(caught.value), "the log's last lines say more"


def test_run_without_models_refuses_the_client(make: Make) -> None:
    run_tools = make(FT_STRONG_MODELS="")
    (finding,) = script_findings(run_tools, COPIES)
    assert (
        finding
        == "process_data.py:2: imports tuneloop_models, and this run names no models; right is a script that asks none"
    )


def test_set_order_is_fixed(make: Make) -> None:
    code = "import json, sys\n'--debug' in sys.argv\njson.dump(list({f'w{i}' for i in range(50)}), open('data.json', 'w'))\n"
    run_tools = make()
    first = result(run_tools, start(run_tools, code))
    assert result(run_tools, start(run_tools, code + "# again\n")) == first


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_many_kills_pay_nothing_twice(make: Make, provider: Provider, seed: int) -> None:
    """kill -9 at any moment, eight times in one script of 200 questions."""
    run_tools, rng, pause = make(), random.Random(seed), threading.Event()
    code = COPIES.replace("range(24)", "range(200)")
    provider.next = [lambda *_: pause.wait(rng.random() * 0.1)] * 1000
    name = start(run_tools, code)
    for kill in range(1, 9):
        goal = kill * 20 + rng.randint(0, 9)
        until(partial(reached, provider, goal), 60)
        pause.wait(rng.random() * 0.05)
        kill_the_job(run_tools, run_tools.run.experiment(1).script)
        assert over(run_tools, name)[0].exit.killed  # type: ignore[union-attr]
        start(run_tools, code)
    assert [row["output"] for row in result(run_tools, name)] == [f"echo question {i}" for i in range(200)]
    assert contents(provider) == {f"question {i}": 1 for i in range(200)}
