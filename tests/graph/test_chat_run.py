"""A real run whose five agents think with a chat model that errs in every way: it ends with a model and a report."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import Call, Cut, Garbage, Hang, Refuse, Reply, Said, chat_server
from tests.conftest import COMMAND, SMALL, linked_home
from tuneloop.agents.chat.models import LETTERS_PER_TOKEN, OF_TOOLS
from tuneloop.agents.policy import OfflinePolicy
from tuneloop.core.async_bridge import run_sync
from tuneloop.core.brief import Brief
from tuneloop.core.event_log import iter_events
from tuneloop.core.files import read_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.protocols import Toolbox, ToolCard
from tuneloop.core.settings import Settings
from tuneloop.core.transcript import ModelCall, TranscriptEnded, TranscriptStarted, list_transcripts, read_transcript
from tuneloop.graph.agent_calls.replay import AGENTS
from tuneloop.mcp_servers.client import open_toolbox
from tuneloop.mcp_servers.scope import Scope
from tuneloop.tools.engines import Engine
from tuneloop.tools.llm_proxy.ledger import read_ledger, sums_by_job
from tuneloop.tools.runs.messages import say

CANARY = "canary-2b8e61f07a9d4c35"
BROKEN = Reply("", (Call("DataScript", '{"code": "import js'),))
BREAKS = ("data_engineer", 1, 0)  # agent, experiment and attempt whose script ends with an error
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


class Rounds:
    """A toolbox that notes which calls are made at once, and which only when others are answered."""

    def __init__(self, behind: Toolbox) -> None:
        self.behind = behind
        self.rounds: list[list[Call]] = []
        self.answered = True

    async def call(self, tool: str, **arguments: Any) -> Any:
        if self.answered:
            self.rounds.append([])
            self.answered = False
        if (made := Call(tool, arguments)) not in [call for calls in self.rounds for call in calls]:
            self.rounds[-1].append(made)
        try:
            return await self.behind.call(tool, **arguments)
        finally:
            self.answered = True

    async def names(self) -> Sequence[str]:
        return await self.behind.names()

    async def cards(self) -> Sequence[ToolCard]:
        return await self.behind.cards()


class Mind:
    """Errs as `FAULTS` says, then makes the calls of tools that the offline policy makes, then answers as it does.

    `sound`: requests for the first experiment that were answered as they should be; `opening`: the first to the researcher
    in each experiment. The first data script ends with an error; `repair`: the requests until it is right.
    """

    def __init__(self, run: RunFolder, settings: Settings, *, errs: bool = True) -> None:
        self.run, self.settings = run, settings
        self.faults = {place: list(said) for place, said in FAULTS.items() if errs}
        self.hangs = threading.Event()
        self.plans: dict[str, tuple[list[tuple[Call, ...]], Call]] = {}
        self.sound: list[dict[str, Any]] = []
        self.repair: list[dict[str, Any]] = []
        self.opening: dict[int, dict[str, Any]] = {}

    def __call__(self, asked: dict[str, Any]) -> Said:
        told = self.asked_for()
        if told.agent == "researcher":
            self.opening.setdefault(told.brief["experiment"], asked)
        faults = self.faults.get((told.brief["experiment"], told.agent))
        if faults:
            fault = faults.pop(0)
            if isinstance(fault, Hang):
                self.hangs.set()
            return fault
        letters = len(json.dumps(asked))
        if told.prompt not in self.plans:
            self.plans[told.prompt] = run_sync(self.plan(told))
        rounds, answer = self.plans[told.prompt]
        done = sum("tool_calls" in m and not errs(m) for m in asked["messages"])
        if told.brief["experiment"] == 1:
            repairs = told.agent == "validator" or (told.brief["attempt"] and told.agent != "critic")
            (self.repair if repairs else self.sound).append(asked)
        if self.faults and (told.agent, told.brief["experiment"], told.brief["attempt"]) == BREAKS:
            assert isinstance(answer.arguments, dict)
            code = answer.arguments["code"]
            answer = Call(answer.name, {**answer.arguments, "code": f"{code}\nraise ValueError\n"})
        calls = rounds[done] if done < len(rounds) else (answer,)
        return Reply("", calls, usage=(letters // 4, 12, letters // 8))

    def asked_for(self) -> TranscriptStarted:
        """The question that has no answer yet."""
        newest = max(list_transcripts(self.run), key=lambda path: path.stat().st_mtime_ns)
        lines = list(read_transcript(newest))
        assert isinstance(lines[0], TranscriptStarted)
        return lines[0]

    async def plan(self, told: TranscriptStarted) -> tuple[list[tuple[Call, ...]], Call]:
        """Calls of tools, those of a round at once, and the answer."""
        agent = AGENTS[told.agent]
        async with open_toolbox(Scope(self.run, self.settings), agent.tools) as tools:
            noted = Rounds(tools)
            answer = await OfflinePolicy().answer(agent.name, "", Brief.model_validate(told.brief), noted, agent.answer)
        rounds = [tuple(calls) for calls in noted.rounds if calls]
        return rounds, Call(told.want, answer.model_dump(mode="json"))


def errs(message: dict[str, Any]) -> bool:
    """Whether it is one of the wrong calls of `FAULTS`."""
    return any(call["function"]["name"] in ("no_such_tool", "DataScript") for call in message["tool_calls"])


def tuneloop(home: Path, *words: str, **more: str) -> subprocess.Popen[str]:
    env = {**os.environ, "FT_FILE_PATH": str(home), **more}
    return subprocess.Popen(
        [*COMMAND, *words], env=env, cwd=home.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_a_run_with_a_model_that_errs_in_every_way(
    tmp_path: Path, llamafactory: Engine, opencompass: Engine, tiny: Path
) -> None:
    """It is killed while a model hangs, and goes on."""
    home = linked_home(tmp_path / "home")
    run = RunFolder(home / "runs" / "chat")
    mind = Mind(run, Settings(FT_FILE_PATH=home))
    with chat_server(mind) as chat:
        told = {
            "CHAT_MODEL": "m", "OPENAI_API_KEY": CANARY, "OPENAI_API_BASE": chat.url, "TUNELOOP_CHAT_TOKENS": "90000",
            "TUNELOOP_API_PRICES": '{"m": [1, 2]}', **SMALL,
        }  # fmt: skip
        words = ("--benchmark", "wordproblems", "--base-model", "tiny", "--loop-n", "4", "--run-id", "chat")
        first = tuneloop(home, "run", *words, **told)
        assert mind.hangs.wait(900), first.communicate()
        first.kill()
        output = first.communicate()[0]
        say(run, "use max_steps=100")
        second = tuneloop(home, "resume", "chat", **told)
        output += second.communicate()[0]
    assert second.returncode == 0, output[-5000:]
    report = read_json(run.report_json)
    assert [e["outcome"] for e in report["experiments"]] == ["promoted", "failed", "failed", "failed"]
    assert {e["failure"]["culprit"] for e in report["experiments"][1:]} == {"planner"}
    assert report["experiments"][0]["repairs"] == 1
    assert (report["planner"], set(report["answers"]), report["answers"][""]) == ("chat m", {"m", ""}, 3)
    assert report["best"]["test"]["value"] > report["baseline"]["test"]["value"]
    said_by_the_model(run)
    nothing_leaked(home, run, output, chat.keys)
    replayed(home)
    thrifty(mind.sound, [mind.opening[number] for number in (1, 2, 3, 4)])
    repair = [size for asked in mind.repair for _, size in sent_parts(asked)]
    assert 0 < sum(repair) <= 25_000, (len(mind.repair), sum(repair))


def test_a_run_without_a_benchmark(tmp_path: Path, llamafactory: Engine, tiny: Path) -> None:
    """The model is asked what to train on and how; there is nothing that a critic could explain."""
    home, data = linked_home(tmp_path / "home"), tmp_path / "sums"
    run = RunFolder(home / "runs" / "plain")
    data.mkdir()
    rows = ({"instruction": f"{i} and {i % 7}?", "output": f"{i} + {i % 7} = {i + i % 7}"} for i in range(300))
    (data / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    mind = Mind(run, Settings(FT_FILE_PATH=home), errs=False)
    with chat_server(mind) as chat:
        told = {"CHAT_MODEL": "m", "OPENAI_API_KEY": CANARY, "OPENAI_API_BASE": chat.url}
        words = ("--benchmark", "none", "--dataset", str(data), "--base-model", "tiny", "--run-id", "plain")
        output = tuneloop(home, "run", *words, "--step-n", "1", **told).communicate()[0]
        say(run, "use max_steps=40")
        done = tuneloop(home, "resume", "plain", **told)
        output += done.communicate()[0]
    assert done.returncode == 0, output[-5000:]
    report = read_json(run.report_json)
    assert [e["outcome"] for e in report["experiments"]] == ["not evaluated"]
    assert (report["planner"], report["claim"], report["best"]["delivered"]) == ("chat m", None, True)
    lines = (line for path in list_transcripts(run) for line in read_transcript(path))
    asked = [line.agent for line in lines if isinstance(line, TranscriptStarted)]
    assert asked == ["researcher", "data_engineer", "config_coder"]
    told_so = [
        "no benchmark: one experiment is trained and delivered" in json.dumps(one["messages"]) for one in mind.sound
    ]
    assert len(told_so) >= len(asked) and all(told_so)
    assert "max_steps: 40\n" in run.experiment(1).config.read_text()


def thrifty(asked: list[dict[str, Any]], openings: list[dict[str, Any]]) -> None:
    """Prompt tokens of one experiment, by the planner's own estimate, and how many of them a provider's cache can hold.

    It can hold the longest beginning (tools, then messages) that was sent before: by a request before, or, of tools and
    system message, in the experiment before, for these stay the same through a run.
    """
    told = list(map(sent_parts, openings))
    first, *later = told[1:]  # tools that cannot answer before there is an experiment come with the second
    assert all(parts[: len(first) - 1] == first[:-1] for parts in later)
    names = [{one["function"]["name"] for one in asked["tools"]} for asked in openings]
    assert names[0] < names[1]
    journals = [parts[-1][0].partition("\n\n## Failures")[0] for parts in told]
    assert journals[0].endswith("|---|")
    assert all(b.startswith(a) and len(b) > len(a) for a, b in itertools.pairwise(journals))
    sent = list(map(sent_parts, asked))
    sizes = [sum(size for _, size in parts) for parts in sent]
    stable = [sum(size for _, size in parts[: len(one["tools"]) + 1]) for one, parts in zip(asked, sent, strict=True)]
    known = [max(stable[i], *(same(parts, old) for old in sent[:i]), 0) for i, parts in enumerate(sent)]
    assert sum(sizes) <= 45_000, list(map(int, sizes))
    assert sum(known) >= 0.7 * sum(sizes), sum(known) / sum(sizes)


def sent_parts(asked: dict[str, Any]) -> list[tuple[str, float]]:
    """Tools and messages of a request, with their tokens."""
    return [*map(tool_text, asked["tools"]), *map(message_text, asked["messages"])]


def tool_text(card: dict[str, Any]) -> tuple[str, float]:
    """A tool and its tokens."""
    return str(card), len(str(card)) / OF_TOOLS


def message_text(message: dict[str, Any]) -> tuple[str, float]:
    """A message and its tokens."""
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    text = (message["content"] or "") + "".join(call["name"] + call["arguments"] for call in calls)
    return text, len(text) / LETTERS_PER_TOKEN


def same(parts: list[tuple[str, float]], old: list[tuple[str, float]]) -> float:
    """Tokens of the common beginning; of the first message that differs, the letters before the difference."""
    tokens = 0.0
    for (text, size), (before, _) in zip(parts, old, strict=False):
        if text != before:
            at = next((i for i, (a, b) in enumerate(zip(text, before, strict=False)) if a != b), len(before))
            return tokens + size * min(at, len(text)) / max(1, len(text))
        tokens += size
    return tokens


def said_by_the_model(run: RunFolder) -> None:
    ended = [
        line for path in list_transcripts(run) for line in read_transcript(path) if isinstance(line, TranscriptEnded)
    ]
    assert {line.by for line in ended if line.answer is not None} == {"m"}
    assert sum(line.answer is None for line in ended) == 3
    assert not list(iter_events(run.events, "planner_fell_back"))
    calls = [line for path in list_transcripts(run) for line in read_transcript(path) if isinstance(line, ModelCall)]
    booked = sums_by_job(run.ledger)
    assert set(booked) >= {"agent:researcher", "agent:data_engineer", "agent:config_coder", "agent:critic"}
    assert sum(sums.requests for sums in booked.values()) == len(calls) + 1, "and the one that was killed"
    (killed,) = (entry for entry in read_ledger(run.ledger) if entry.outcome == "killed")
    assert killed.cost is not None and killed.cost > 0, "what was set aside for it"
    answered = [call for call in calls if call.outcome == "answered"]
    paid = sum(entry.cost or 0 for entry in read_ledger(run.ledger)) - killed.cost
    assert paid == pytest.approx(sum(c.cost or 0 for c in calls))
    assert len(list(iter_events(run.events, "model_called"))) >= len(answered)


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
    said = done.communicate()[0].splitlines()
    assert done.returncode == 0, said
    assert all(line.endswith(": same") for line in said)
    assert len(said) == 6 + 3 * 2  # the first experiment has a repair
