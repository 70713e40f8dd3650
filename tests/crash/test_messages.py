"""Killed at every write while messages are answered: each has one effect and one answer, each call is booked once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.chat_server import Call, Reply, chat_server
from tuneloop.core.directive import Directive
from tuneloop.core.directive_log import read_conversation, read_directives
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.tools.llm_proxy.ledger import read_ledger
from tuneloop.tools.runs.manifest import write_manifest
from tuneloop.tools.runs.messages import say

MESSAGES = (
    "limit learning_rate<=1e-4",
    "more $5",
    "revoke 2",
    "der Rang soll 32 sein",
    "status",
)
RANK = Reply("", (Call("Interpretation", {"commands": ["use lora_rank=32"]}),))
LEAST = 60


def state(directive: Directive) -> tuple[str, str, str]:
    return directive.id, directive.command.kind, directive.state


pytestmark = pytest.mark.slow


def test_killed_at_every_boundary_of_a_conversation(tmp_path: Path) -> None:
    home, seen, past = tmp_path / "home", tmp_path / "seen", tmp_path / "past"
    run = Settings(FT_FILE_PATH=home).home.run("r1")
    write_manifest(run, RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=2, max_cost=5))
    messages = [say(run, text) for text in MESSAGES]
    seen.touch()
    with chat_server(lambda _: RANK) as model:
        env = {"FT_FILE_PATH": str(home), "CHAT_MODEL": "m", "OPENAI_API_KEY": "k", "OPENAI_API_BASE": model.url}
        env["TUNELOOP_API_PRICES"] = '{"m": [1, 2]}'
        argv = [sys.executable, str(Path(__file__).with_name("messages.py")), str(home), "r1", str(seen), str(past)]
        done = subprocess.run(argv, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(seen.read_text().splitlines()) >= LEAST
    assert [state(d) for d in read_directives(run.directives)] == [
        ("1", "bound", "open"),
        ("2", "extend", "revoked"),
        ("3", "use", "open"),
    ]
    lines = read_conversation(run.conversation)
    assert Counter(line.id for line in lines if line.who == "user") == Counter(messages)
    assert Counter(line.answers for line in lines if line.answers) == Counter(messages)
    booked = list(read_ledger(run.ledger))
    assert len(booked) == len({entry.id for entry in booked}) >= len(model.seen), "each once, and none is forgotten"
    assert {entry.outcome for entry in booked} == {"answered", "killed"}
