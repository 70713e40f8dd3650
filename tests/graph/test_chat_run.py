"""A real run whose five agents think with a chat model that errs in every way: it ends with a model and a report."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import Call, Cut, Garbage, Hang, Refuse, Reply, Said, chat_server
from tests.conftest import COMMAND, linked_home
from tuneloop.agents.policy import OfflinePolicy
from tuneloop.core.bridge import run_sync
from tuneloop.core.brief import Brief
from tuneloop.core.event_log import every_event
from tuneloop.core.files import read_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.model_call import Begun, Ended, ModelCall, read_transcript, transcripts
from tuneloop.core.settings import Settings
from tuneloop.graph.replay import AGENTS
from tuneloop.mcp_servers.client import open_toolbox
from tuneloop.mcp_servers.scope import Scope
from tuneloop.tools.engines import Engine
from tuneloop.tools.proxy.ledger import sums_by_job

CANARY = "canary-2b8e61f07a9d4c35"
BROKEN = Reply("", (Call("DataScript", '{"code": "import js'),))
LISTS = Reply("", (Call("data_list_datasets", {}),))
FAULTS: dict[tuple[int, str], list[Said]] = {
    (1, "researcher"): [
        Refuse(429, headers={"Retry-After": "0"}),
        Cut(LISTS, 2),
        Reply("", (Call("no_such_tool", {}),)),
    ],
    (1, "data_engineer"): [Garbage(), Hang(), BROKEN],
    (1, "config_coder"): [Refuse(500, f"you sent {CANARY}"), Reply("")],
    (1, "critic"): [Reply("", refusal="I can't judge people.")],
    (2, "researcher"): [LISTS] * 99,
    (3, "researcher"): [Reply("blah " * 100_000, usage=(100, 100_000, 0))] * 9,
    (4, "researcher"): [Reply("", refusal="No.")] * 9,
}


class Mind:
    """Errs as `FAULTS` says, then looks at the data, then answers as the offline policy would with the same tools."""

    def __init__(self, run: RunFolder, settings: Settings) -> None:
        self.run, self.settings = run, settings
        self.faults = {place: list(said) for place, said in FAULTS.items()}

    def __call__(self, asked: dict[str, Any]) -> Said:
        told = self.asked_for()
        faults = self.faults.get((told.brief["experiment"], told.agent))
        if faults:
            return faults.pop(0)
        letters = len(json.dumps(asked))
        if "data_list_datasets" in told.tools and not any(m["role"] == "tool" for m in asked["messages"]):
            return Reply("", LISTS.calls, usage=(letters // 4, 12, 0))
        answer = run_sync(self.answer(told))
        return Reply("", (Call(told.want, answer.model_dump(mode="json")),), usage=(letters // 4, 200, letters // 8))

    def asked_for(self) -> Begun:
        """The question that has no answer yet."""
        newest = max(transcripts(self.run), key=lambda path: path.stat().st_mtime_ns)
        lines = list(read_transcript(newest))
        assert isinstance(lines[0], Begun)
        return lines[0]

    async def answer(self, told: Begun) -> Any:
        agent = AGENTS[told.agent]
        async with open_toolbox(Scope(self.run, self.settings), agent.tools) as tools:
            return await OfflinePolicy().answer(agent.name, "", Brief.model_validate(told.brief), tools, agent.answer)


def tuneloop(home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "FT_FILE_PATH": str(home), **more}
    return subprocess.run([*COMMAND, *words], env=env, cwd=home.parent, capture_output=True, text=True)


@pytest.mark.slow
def test_a_run_with_a_model_that_errs_in_every_way(
    tmp_path: Path, llamafactory: Engine, opencompass: Engine, tiny: Path
) -> None:
    home = linked_home(tmp_path / "home")
    run = RunFolder(home / "runs" / "chat")
    with chat_server(Mind(run, Settings(FT_FILE_PATH=home))) as chat:
        done = tuneloop(
            home, "run", "--benchmark", "wordproblems", "--base-model", "tiny", "--loop-n", "4", "--run-id", "chat",
            CHAT_MODEL="m", OPENAI_API_KEY=CANARY, OPENAI_API_BASE=chat.url, TUNELOOP_CHAT_TIMEOUT="4",
            TUNELOOP_API_PRICES='{"m": [1, 2]}', TUNELOOP_CHAT_TOKENS="90000",
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report = read_json(run.report_json)
    assert [e["outcome"] for e in report["experiments"]] == ["accepted", "failed", "failed", "failed"]
    assert {e["failure"]["culprit"] for e in report["experiments"][1:]} == {"planner"}
    assert (report["planner"], report["answers"][""]) == ("chat m", 3)
    assert set(report["answers"]) == {"m", ""}
    assert report["best"]["test"]["value"] > report["baseline"]["test"]["value"]
    said_by_the_model(run)
    nothing_leaked(home, run, done.stdout + done.stderr, [str(key) for key in chat.keys])
    replayed(home)


def said_by_the_model(run: RunFolder) -> None:
    ended = [line for path in transcripts(run) for line in read_transcript(path) if isinstance(line, Ended)]
    assert {line.by for line in ended if line.answer is not None} == {"m"}
    assert sum(line.answer is None for line in ended) == 3
    assert not list(every_event(run.events, "planner_fell_back"))
    calls = [line for path in transcripts(run) for line in read_transcript(path) if isinstance(line, ModelCall)]
    booked = sums_by_job(run.ledger)
    assert set(booked) >= {"agent:researcher", "agent:data_engineer", "agent:config_coder", "agent:critic"}
    assert sum(sums.requests for sums in booked.values()) == len(calls)
    answered = [call for call in calls if call.outcome == "answered"]
    assert sum(sums.cost or 0 for sums in booked.values()) == pytest.approx(sum(call.cost or 0 for call in calls))
    assert len(list(every_event(run.events, "model_called"))) >= len(answered)


def nothing_leaked(home: Path, run: RunFolder, output: str, keys: list[str]) -> None:
    assert set(keys) == {f"Bearer {CANARY}"}
    assert CANARY not in output
    files = [
        path for folder in (run.root, home / "cache", home / "proxies") for path in folder.rglob("*") if path.is_file()
    ]
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []


def replayed(home: Path) -> None:
    """The provider is gone."""
    done = tuneloop(home, "replay")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(line.endswith(": same") for line in done.stdout.splitlines())
    assert len(done.stdout.splitlines()) >= 10
