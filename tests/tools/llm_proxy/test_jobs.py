"""A run's jobs get an endpoint where the settings name models, and none where they do not."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import linked_home
from tests.prepared import prepared, wordproblems
from tests.tools.llm_proxy.conftest import CANARY, Provider, tree_holds
from tests.waiting import until
from tuneloop.cli.doctor import check_models
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.experiment import Journal
from tuneloop.core.job import Command
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.lifecycle.create_run import create_run_folder
from tuneloop.sandboxes.jobs import wait
from tuneloop.tools.data_script.run import CLIENTS, script_findings, script_key, script_result, start_script
from tuneloop.tools.engines import Engine
from tuneloop.tools.housekeeping.cleanup import find_removables
from tuneloop.tools.housekeeping.removable import CleanupRequest, remove_found
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.llm_proxy.access import judge_access
from tuneloop.tools.llm_proxy.launcher import proxy_folder
from tuneloop.tools.llm_proxy.ledger import read_ledger, sums_by_job

SCRIPT = """
import argparse, json, os, urllib.request
parser = argparse.ArgumentParser()
parser.add_argument("--debug", action="store_true")
rows = 3 if parser.parse_args().debug else 6
def ask(text):
    body = {"model": json.loads(os.environ["STRONG_MODEL_POOL"])[0], "temperature": 0,
            "messages": [{"role": "user", "content": text}]}
    head = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    url = os.environ["OPENAI_API_BASE"] + "/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), head)) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]
json.dump([{"instruction": f"q{i}", "input": "", "output": ask(f"q{i}")} for i in range(rows)], open("data.json", "w"))
"""
SILENT = """
import argparse, json, os
parser = argparse.ArgumentParser()
parser.add_argument("--debug", action="store_true")
print(parser.parse_args().debug, sorted(name for name in os.environ if "OPENAI" in name or "POOL" in name))
json.dump([], open("data.json", "w"))
"""
Make = Callable[..., RunTools]


@pytest.fixture
def make(tmp_path: Path, llamafactory: Engine, tiny: Path) -> Make:
    """`make(SETTING=…)`: the tools of a prepared run."""

    def build(**more: Any) -> RunTools:
        home = tmp_path / "home"
        if not home.exists():
            linked_home(home)
        settings = Settings(FT_FILE_PATH=home, **more)
        run = RunFolder(settings.home.runs / "r")
        run.experiment(1).jobs.mkdir(parents=True, exist_ok=True)
        (run.root / "datasets").mkdir(exist_ok=True)
        spec = RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=1)
        prepared(run, spec, wordproblems(settings.home), tiny)
        return RunTools(run, settings)

    return build


def models(provider: Provider, **more: Any) -> dict[str, Any]:
    return {"OPENAI_API_KEY": CANARY, "OPENAI_API_BASE": provider.url, "FT_STRONG_MODELS": "strong", **more}


def run_script(run_tools: RunTools, code: str, *, debug: bool) -> tuple[list[Any], Path]:
    """What the script wrote, and its job."""
    folder = run_tools.run.experiment(1)
    folder.script.write_text(code)
    assert script_findings(run_tools, code) == []
    name = start_script(run_tools, folder, debug=debug)
    status, job = until(
        lambda: found if (found := run_tools.status(folder.jobs, name))[0].state == "over" else None, 60
    )
    data: list[Any] = json.loads(script_result(run_tools, folder, status, job, debug=debug).read_text())
    return data, job


def test_script_requests_are_booked(make: Make, provider: Provider) -> None:
    run_tools = make(**models(provider))
    tried, _ = run_script(run_tools, SCRIPT, debug=True)
    rows, job = run_script(run_tools, SCRIPT, debug=False)
    assert [row["output"] for row in rows] == [f"echo q{i}" for i in range(6)]
    assert tried == rows[:3]
    assert len(provider.seen) == 6, "the requests of the try are cached"
    booked = sums_by_job(run_tools.run.ledger)
    assert {name: (s.requests, s.cached) for name, s in booked.items()} == {
        "experiments-001-dry_run": (3, 0),
        "experiments-001-build_data": (3, 3),
    }
    assert tree_holds(run_tools.run.root, CANARY) + tree_holds(run_tools.settings.home.proxies, CANARY) == []
    assert tree_holds(run_tools.settings.home.cache, CANARY) == []
    assert provider.url not in (job / "command.json").read_text()


def test_no_endpoint_without_models(make: Make, provider: Provider) -> None:
    run_tools = make(OPENAI_API_KEY=CANARY, OPENAI_API_BASE=provider.url)
    findings = script_findings(run_tools, SCRIPT)
    assert any("urllib.request" in finding and "no network" in finding for finding in findings)
    _, job = run_script(run_tools, SILENT, debug=True)
    assert "True []" in (job / "log.txt").read_text()
    assert not run_tools.settings.home.proxies.exists()
    folder = run_tools.run.experiment(1)
    other = make(**models(provider))
    assert script_key(run_tools, folder, debug=True) != script_key(other, folder, debug=True)
    assert script_key(make(), folder, debug=True) == script_key(run_tools, folder, debug=True)


def test_killed_proxy_is_restarted_by_status(make: Make, provider: Provider) -> None:
    run_tools = make(**models(provider))

    def wait_for_gate(*_: Any) -> bool:
        provider.waiting.release()
        provider.gate.wait(20)
        return False

    provider.next = [wait_for_gate]
    folder = run_tools.run.experiment(1)
    patient = (
        "def patiently(text):\n    import time\n    for _ in range(99):\n        try:\n            return ask(text)\n"
        "        except OSError:\n            time.sleep(0.1)\njson.dump("
    )
    again = SCRIPT.replace("json.dump(", patient).replace('ask(f"q', 'patiently(f"q')
    folder.script.write_text(again)
    start_script(run_tools, folder, debug=True)
    assert provider.waiting.acquire(timeout=30)
    place = proxy_folder(run_tools.run, run_tools.settings)
    pids = [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(place).encode() in p.read_bytes()]
    os.kill(int(pids[0].parts[2]), 9)
    provider.gate.set()
    status, job = until(
        lambda: found if (found := run_tools.status(folder.jobs, "dry_run"))[0].state == "over" else None, 60
    )
    assert status.exit.ok, (job / "log.txt").read_text()
    outcomes = [entry.outcome for entry in read_ledger(run_tools.run.ledger)]
    assert sorted(outcomes) == ["answered", "answered", "answered", "killed"]


def test_judge_has_its_own_endpoint(make: Make, provider: Provider) -> None:
    """Any job that is launched with an access gets one; the judge's key is its own."""
    run_tools = make(FT_JUDGE_MODEL="judge", FT_JUDGE_API_KEY=f"{CANARY}-judge", FT_JUDGE_API_BASE=provider.url)
    access, engine, work = (
        judge_access(run_tools.settings),
        run_tools.engine("llamafactory"),
        run_tools.run.baseline / "work",
    )
    work.mkdir(parents=True)
    code = SCRIPT.replace("rows = 3 if parser.parse_args().debug else 6", "rows = 1")
    command = Command(
        argv=(str(engine.python), "-I", "-c", code),
        cwd=str(work),
        read=engine.readable,
        write=(str(work),),
        env=dict(engine.env),
    )
    folder = run_tools.launch(run_tools.run.baseline / "jobs", "evaluate", command, access=access, worker="")
    assert wait(run_tools.sandbox, folder).ok, (folder / "log.txt").read_text()
    assert provider.keys == [f"Bearer {CANARY}-judge"]
    assert [entry.job for entry in read_ledger(run_tools.run.ledger)] == ["baseline-evaluate"]


def test_installed_clients_may_be_imported(make: Make, provider: Provider) -> None:
    run_tools = make(**models(provider))
    there = sorted(CLIENTS & run_tools.engine("llamafactory").packages.keys())
    assert "requests" in there
    for name in CLIENTS:
        found = script_findings(run_tools, SCRIPT.replace("import argparse", f"import {name}, argparse"))
        assert (found == []) == (name in there), found
    assert "no network" in "".join(
        script_findings(run_tools, SCRIPT.replace("import argparse", "import socket, argparse"))
    )


def test_money_limit_without_price_refuses_the_run(tmp_path: Path) -> None:
    settings = Settings(
        FT_FILE_PATH=tmp_path / "home", OPENAI_API_KEY="k", FT_WEAK_MODELS="m", TUNELOOP_API_RUN_LIMITS={"money": 1}
    )
    spec = RunSpec(benchmark="wordproblems", base_model="tiny")
    with pytest.raises(InvalidRequestError, match="no price for m"):
        create_run_folder(spec, settings, "r")
    assert check_models(settings).verdict == "missing"


def test_doctor_lists_models(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "FT_FILE_PATH": tmp_path,
        "OPENAI_API_KEY": CANARY,
        "OPENAI_API_BASE": f"https://u:{CANARY}@h.example/v1",
    }
    assert check_models(Settings(**given)).verdict == "ok"
    found = check_models(Settings(**given, FT_WEAK_MODELS="m"))
    assert found.says == "data scripts may ask m at h.example, 8 at once; a job at most 10000 requests"
    assert (found.verdict, "no price for m" in found.cure) == ("note", True)
    priced = check_models(Settings(**given, FT_WEAK_MODELS="m", TUNELOOP_API_PRICES={"m": [1, 2]}))
    assert priced.verdict == "ok"
    assert CANARY not in f"{found}{priced}"


def test_clean_removes_proxies_of_finished_runs(tmp_path: Path) -> None:
    settings = Settings(FT_FILE_PATH=tmp_path)
    home = settings.home
    for name, over in (("open", False), ("over", True), ("gone", None)):
        place = home.proxies / name
        place.mkdir(parents=True)
        (place / "lock").touch()
        if over is not None:
            home.run(name).root.mkdir(parents=True)
            home.run(name).spec.touch()
        if over:
            home.run(name).report_json.touch()
        os.utime(place, (time.time() - 100,) * 2)
    (home.cache / "answers" / "ab").mkdir(parents=True)
    (home.cache / "answers" / "ab" / "x.json").write_text("x" * 200_000)
    found = find_removables(home, CleanupRequest(), lambda run: Journal())
    assert {"proxies/over", "proxies/gone", "cache/answers"} == {f.what for f in found}
    for find in found:
        remove_found(find)
    assert sorted(p.name for p in home.proxies.iterdir()) == ["open"]
