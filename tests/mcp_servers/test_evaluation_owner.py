"""The owner's server `evaluation`: any model is measured by a process of its own, and nothing but what is open is read."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from tests.chat_server import chat_server, text_of
from tests.mcp_servers.test_http import serving
from tests.stand_in_engine import write_adapter, write_benchmark, write_model
from tests.tools.llm_proxy.conftest import tree_holds
from tests.waiting import until
from tuneloop.core.errors import InfrastructureError, ToolError
from tuneloop.core.files import read_lines, write_atomic, write_json, write_lines
from tuneloop.core.settings import Settings
from tuneloop.mcp_servers.client import open_toolbox
from tuneloop.mcp_servers.evaluation import EvaluationTools
from tuneloop.mcp_servers.evaluation_owner import OwnerTools
from tuneloop.mcp_servers.main import command
from tuneloop.mcp_servers.scope import Scope
from tuneloop.tools.evaluation.standalone.request import PREFIX

KEY = "sk-canary-of-the-owner"
ROOT = Path(__file__).parents[2]
# The command line in a real process of its own, but with the engine that stands in for OpenCompass's.
BOOT = """\
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.stand_in_engine import stand_in
from tuneloop.cli.main import cli
from tuneloop.tools.evaluation.standalone import run_tools
made = stand_in(Path({place!r}))
run_tools.ensure_engine = lambda *_: made
cli(sys.argv[1:])
"""
PYTHON = '#!/bin/sh\n[ "$1" = -P ] || exec {python} "$@"\nshift 3\nexec {python} -P {boot} "$@"\n'


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    boot, python = tmp_path / "boot.py", tmp_path / "python"
    write_atomic(boot, BOOT.format(root=str(ROOT), place=str(tmp_path)))
    write_atomic(python, PYTHON.format(python=sys.executable, boot=boot))
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUM_GPUS", "0")
    monkeypatch.setenv("FT_Coder_CoSTEER_env_type", "process")
    monkeypatch.setenv("MODEL_ABBR", "of-another-question")
    write_benchmark(tmp_path / "open" / "sums")
    write_model(tmp_path / "open" / "base")
    write_model(tmp_path / "closed" / "base")
    return tmp_path


def tools(place: Path) -> OwnerTools:
    scope = Scope(None, Settings(FT_FILE_PATH=place / "home"), roots=(place / "open",), owner=True)
    return OwnerTools(scope, EvaluationTools(scope))


def replies(place: Path, name: str, right: int) -> str:
    """A file in which the first so many items are answered rightly."""
    items = list(read_lines(place / "open" / "sums" / "validation.jsonl"))
    texts = [f"\\boxed{{{row['answer']}}}" if n < right else "\\boxed{7000}" for n, row in enumerate(items)]
    file = place / "open" / f"{name}.jsonl"
    write_lines(file, [{"id": row["id"], "prediction": text} for row, text in zip(items, texts, strict=True)])
    return str(file)


def over(t: OwnerTools, evaluation: str) -> dict[str, Any]:
    """What is said of it when it is at work no longer."""

    def said() -> dict[str, Any] | None:
        found = t.get_result(evaluation)
        return None if found["state"] == "running" else found

    return dict(until(said, 120, 0.1))


def asked_for(place: Path) -> list[str]:
    return [p.name for p in (place / "home" / "evaluations").glob(f"{PREFIX}*")]


def test_models_are_measured_compared_and_explained(place: Path) -> None:
    t, sums = tools(place), [str(place / "open" / "sums")]
    right, half = (t.evaluate(replies(place, name, n), sums)["evaluation"] for name, n in (("right", 8), ("half", 2)))
    assert (right.rpartition("-")[0], half.rpartition("-")[0]) == ("right.jsonl", "half.jsonl")
    found = over(t, half)
    assert (found["state"], found["why"], found["name"]) == ("over", "", "half")
    (score,) = found["results"]
    assert (score["value"], score["n"], score["split"]) == (25, 8, "validation")
    assert 0 < score["low"] < 25 < score["high"] < 100
    assert "items" not in score
    over(t, right)
    (row,) = t.compare(right, half)["compared"]
    assert (row["gain"], row["wins"], row["losses"], row["verdict"]) == (75, 6, 0, "better")
    assert row["p_value"] == pytest.approx(2 / 2**6)
    why = t.explain_failures(half, count=3)
    assert (why["failed"], len(why["items"]), why["kinds"][0]["kind"]) == (6, 3, "wrong")
    assert "What is 2 + 4?" in json.dumps(why["items"])
    log = place / "home" / "evaluations" / f"{PREFIX}{half}" / "command.log"
    before = log.stat()
    assert t.evaluate(str(place / "open/half.jsonl"), sums) == {"evaluation": half, "state": "over"}
    assert log.stat() == before
    assert t.evaluate(replies(place, "half", 3), sums)["evaluation"] != half, "written anew it is another question"
    with pytest.raises(ToolError, match=r"no benchmark 'mmlu' in this evaluation; there are sums"):
        t.explain_failures(half, benchmark="mmlu")
    with pytest.raises(ToolError, match=f"did you mean '{half}'"):
        t.get_result(half[:-1] + "x")
    assert tree_holds(place / "home" / "evaluations", "What is 10") == [], "items of the sealed test"
    limited = t.evaluate(str(place / "open/right.jsonl"), sums, limit=4)["evaluation"]
    over(t, limited)
    with pytest.raises(ToolError, match="cannot be compared"):
        t.compare(right, limited)


def test_refusals_are_the_command_lines_own_and_leave_nothing(place: Path) -> None:
    t, here = tools(place), place / "open"
    sums, base = str(here / "sums"), str(here / "base")
    cut = write_model(here / "cut") / "model.safetensors"
    cut.write_bytes(cut.read_bytes()[:-1])
    wide = str(write_adapter(here / "wide", "/nowhere", width=16))
    with chat_server(lambda _: "x", key="right") as chat:
        for words, sentence in (
            ((base, ["wordproblem"]), "did you mean 'wordproblems'"),
            ((str(here / "cut"), [sums]), "no whole safetensors file"),
            ((wide, [sums], None, "validation", base), "it is of another model"),
            (("adder", [sums], None, "validation", "", chat.url), r"wants a key, and none is set \(401\)"),
        ):
            with pytest.raises(ToolError, match=sentence):
                t.evaluate(*words)
    assert asked_for(place) == []


def test_what_is_closed_is_refused_before_anything_starts(place: Path) -> None:
    t, here = tools(place), place / "open"
    sums, base = str(here / "sums"), str(here / "base")
    sealed = place / "home" / "benchmarks" / "sums" / "sealed"
    sealed.mkdir(parents=True)
    (here / "link").symlink_to(place / "closed" / "base")
    outside = str(write_adapter(here / "outside", str(place / "closed" / "base")))
    for model, benchmark in (
        (str(place / "closed" / "base"), sums),
        (str(here / ".." / "closed" / "base"), sums),
        (str(here / "link"), sums),
        (outside, sums),
        (base, str(sealed.parent)),
        (base, str(place / "closed")),
    ):
        with pytest.raises(ToolError, match="is not open to you"):
            t.evaluate(model, [benchmark])
    with pytest.raises(ToolError, match="closed; open here: validation"):
        t.evaluate(base, [sums], split="test")
    for endpoint, sentence in (
        ("https://elsewhere.example/v1", "is not open to you"),
        ("http://127.0.0.1.evil.example/v1", "is not open to you"),
        ("http://user:secret@127.0.0.1/v1", "is no address"),
        ("http://127.0.0.1/v1?key=secret", "is no address"),
        ("file:///etc/passwd", "is no address"),
    ):
        with pytest.raises(ToolError, match=sentence):
            t.evaluate("adder", [sums], endpoint=endpoint)
    with pytest.raises(ToolError, match="is not open to you"):
        t.evaluate("adder@https://elsewhere.example/v1", [sums])
    for wrong in ((), (base,), ("", [sums]), (base, [sums], 1)):
        with pytest.raises(ToolError, match=r"right is model and benchmarks|or experiment"):
            t.evaluate(*wrong)
    assert asked_for(place) == []


def add(asked: dict[str, Any]) -> str:
    words = text_of(asked).removesuffix("?").split()
    return f"\\boxed{{{int(words[-3]) + int(words[-1])}}}"


def test_an_endpoint_is_stopped_and_goes_on_and_no_key_is_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNELOOP_EVAL_API_KEY", KEY)
    monkeypatch.setenv("FT_API_MAX_WORKERS", "1")
    go_on, asked = threading.Event(), threading.Event()

    def say(question: dict[str, Any]) -> str:
        if len(chat.seen) > 3:
            asked.set()
            go_on.wait(120)
        return add(question)

    with chat_server(say, key=KEY, models=("adder",)) as chat:
        monkeypatch.setenv("TUNELOOP_EVAL_API_BASE", chat.url)
        t = tools(place)
        told = {"model": "adder", "benchmarks": [str(place / "open" / "sums")], "endpoint": chat.url}
        own = t.evaluate(**told)  # type: ignore[arg-type]
        assert own["state"] == "running"
        assert asked.wait(120)
        assert t.evaluate(**told) == own, "asked while it works, it is the same"  # type: ignore[arg-type]
        with pytest.raises(ToolError, match="has no score, it is running"):
            t.explain_failures(own["evaluation"])
        t.stop(own["evaluation"])
        assert over(t, own["evaluation"])["state"] == "stopped"
        go_on.set()
        assert t.evaluate(**told)["evaluation"] == own["evaluation"]  # type: ignore[arg-type]
        found = over(t, own["evaluation"])
    assert [row["value"] for row in found["results"]] == [100]
    assert KEY not in json.dumps(found)
    assert tree_holds(place / "home", KEY) == []


def test_one_that_was_killed_is_lost_and_begun_again(place: Path) -> None:
    t, sums = tools(place), [str(place / "open" / "sums")]
    own = t.evaluate(replies(place, "right", 8), sums)["evaluation"]
    over(t, own)
    root = place / "home" / "evaluations" / f"{PREFIX}{own}"
    (root / "outcome.json").unlink()
    lost = t.get_result(own)
    assert lost["state"] == "lost"
    assert "evaluate again" in lost["why"]
    t.evaluate(str(place / "open/right.jsonl"), sums)
    assert over(t, own)["state"] == "over"
    write_json(root / "outcome.json", {"accepted": True, "error": "adder could not be asked: revoked"})
    assert (t.get_result(own)["state"], t.get_result(own)["why"]) == ("failed", "adder could not be asked: revoked")


async def test_it_is_not_for_a_run(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    async with open_toolbox(Scope(None, Settings(FT_FILE_PATH=home)), None) as mine:
        with pytest.raises(ToolError, match="model"):
            await mine.call("evaluation_evaluate", model="tiny", benchmarks=["wordproblems"])
    with serving(home, "--owner", name="evaluation") as port:
        urls = {"evaluation": f"http://127.0.0.1:{port}/mcp"}
        async with open_toolbox(Scope(None, Settings(FT_FILE_PATH=home, TUNELOOP_MCP_URLS=urls)), None) as reached:
            with pytest.raises(InfrastructureError, match="was started with --owner"):
                await reached.call("evaluation_list_benchmarks")
    assert "is for the server `evaluation`" in CliRunner().invoke(command, ["data", "--owner"]).output
    assert not (home / "evaluations").exists()


async def test_a_model_is_measured_over_stdio_and_outlives_the_server(warm_home: Path) -> None:
    argv = ["-m", "tuneloop.mcp_servers.main", "evaluation", "--owner"]
    env = {**os.environ, "FT_FILE_PATH": str(warm_home), "NUM_GPUS": "0"}

    async def ask(tool: str, **arguments: Any) -> dict[str, Any]:
        async with Client(StdioTransport(sys.executable, argv, env=env, keep_alive=False)) as client:
            return dict((await client.call_tool(tool, arguments)).structured_content or {})

    begun = await ask("evaluate", model="tiny", benchmarks=["wordproblems"], limit=8)
    own = begun["evaluation"]
    scope = Scope(None, Settings(FT_FILE_PATH=warm_home), owner=True)
    found = over(OwnerTools(scope, EvaluationTools(scope)), own)
    assert found["state"] == "over", found["why"]
    (score,) = (await ask("get_result", evaluation=own))["results"]
    assert (score["benchmark"], score["n"]) == ("wordproblems", 8)
    (row,) = (await ask("compare", candidate=own, incumbent=own))["compared"]
    assert (row["gain"], row["p_value"]) == (0, 1)
    why = await ask("explain_failures", evaluation=own, count=1)
    assert why["failed"] == 8 - round(score["value"] * 8 / 100)
