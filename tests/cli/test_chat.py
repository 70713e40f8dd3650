"""Talking with a run: nobody works on it, somebody does, a terminal with a line half typed."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.chat_server import Call, chat_server
from tests.chat_server import Reply as Said
from tuneloop.cli import exchange
from tuneloop.cli.main import cli
from tuneloop.cli.slash import SLASHES, listed, parsed
from tuneloop.core.directive import Approve, Reply, Revoke
from tuneloop.core.directive_log import read_conversation, read_directives
from tuneloop.core.errors import SetupError
from tuneloop.core.event_log import append
from tuneloop.core.events import Problem
from tuneloop.core.layout import RunFolder
from tuneloop.core.run import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.alone import answer_alone
from tuneloop.graph.context import Context
from tuneloop.graph.hearing import obey
from tuneloop.graph.lock import hold
from tuneloop.graph.rebuild import rebuild
from tuneloop.tools.runs.manifest import write_manifest
from tuneloop.tools.runs.messages import put, waiting


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    made = Settings(FT_FILE_PATH=tmp_path / "home").home.run("r1")
    write_manifest(made, RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=2))
    return made


def chat(*args: str, typed: str = "") -> Result:
    return CliRunner().invoke(cli, ["chat", *args], input=typed)


@contextmanager
def at_work(run: RunFolder) -> Iterator[None]:
    """Somebody who holds the run and reads its inbox, as while a job runs."""
    over = threading.Event()

    def work() -> None:
        ctx = Context(run, Settings(FT_FILE_PATH=run.root.parents[1]), rebuild(run, Settings()))
        while not over.wait(0.02):
            obey(ctx)

    with hold(run.lock):
        worker = threading.Thread(target=work)
        worker.start()
        try:
            yield
        finally:
            over.set()
            worker.join()


def test_a_run_that_nobody_works_on_answers_and_remembers(run: RunFolder) -> None:
    put(run.inbox, do="pause")  # of before; it stands still already
    told = chat("r1", "stop after this one")
    assert (told.exit_code, "finish after the open experiment" in told.stdout) == (0, True)
    assert "| 1 | open | finish after the open experiment | stop after this one |" in chat("/directives").stdout
    assert "Taken back: 1" in chat("r1", "/revoke 1").stdout
    assert [d.state for d in read_directives(run.directives)] == ["revoked"]
    assert waiting(run.inbox) == []


def test_piped_lines_are_said_one_after_the_other(run: RunFolder) -> None:
    told = chat("--json", typed="stop after this one\n\nwhat did I ask?\n")
    first, second = map(json.loads, told.stdout.splitlines())
    assert (first["said"], first["answer"]) == (
        "stop after this one",
        "1: finish after the open experiment. Understood.",
    )
    assert second["said"] == "what did I ask?"
    assert first["id"] != second["id"]
    assert [line.who for line in read_conversation(run.conversation)] == ["user", "tuneloop"] * 2


def test_who_works_on_the_run_answers(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "answer_here", None)
    with at_work(run):
        assert "finish after the open experiment" in chat("r1", "stop after this one").stdout
    assert len(read_directives(run.directives)) == 1


def test_it_says_so_when_nobody_reads(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "PATIENCE", 0.1)
    with hold(run.lock):
        told = chat("r1", "stop after this one")
        said = chat("r1", "status", "--json")
    assert (told.exit_code, "has not answered yet" in told.stderr) == (1, True)
    assert json.loads(said.stdout)["answer"] is None
    assert len(waiting(run.inbox)) == 2


def test_commands_mean_something_typed(run: RunFolder) -> None:
    assert parsed("try rank 32") == ("try rank 32", None)
    assert parsed("/revoke 3, 4")[1] == Revoke(ids=("3", "4"))
    assert parsed("/approve launch")[1] == Approve(at="launch")
    assert parsed("/approve no too dear")[1] == Reply(yes=False, reason="too dear")
    assert parsed("/approve")[1] == Reply(yes=True)
    with pytest.raises(SetupError, match="right is one of /status"):
        parsed("/launch")
    assert all(slash.usage in listed() for slash in SLASHES.values())
    refused = chat("r1", "/launch")
    assert (refused.exit_code, waiting(run.inbox)) == (2, [])


def test_a_damaged_meaning_is_words(run: RunFolder) -> None:
    put(run.inbox, do="say", text="stop after this one", meaning='{"kind": "nonsense"}')
    answer_alone(run, Settings())
    assert [d.command.kind for d in read_directives(run.directives)] == ["finish"]


class Typist:
    """Somebody at a terminal."""

    def __init__(self, *args: str) -> None:
        self.hand, there = pty.openpty()
        argv = [sys.executable, "-m", "tuneloop.cli.main", "chat", *args]
        env = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
        self.child = subprocess.Popen(argv, stdin=there, stdout=there, stderr=there, env=env, start_new_session=True)
        os.close(there)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.hand, text.encode())

    def until(self, seen: Callable[[str], bool], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not seen(self.seen):
            assert time.monotonic() < deadline, self.seen
            if select.select([self.hand], [], [], 1)[0]:
                self.seen += os.read(self.hand, 65536).decode(errors="replace")

    def leave(self) -> int:
        """The exit code; a terminal that nobody reads would hold it back."""
        with contextlib.suppress(OSError):
            self.until(lambda _: False)
        return self.child.wait(60)


@contextmanager
def typing(run: RunFolder) -> Iterator[Typist]:
    someone = Typist(run.id)
    try:
        yield someone
    finally:
        someone.child.kill()
        os.close(someone.hand)


def test_in_a_terminal_events_appear_above_what_is_typed(run: RunFolder) -> None:
    with typing(run) as someone:
        someone.until(lambda seen: "> " in seen)
        someone.type("stop after ")
        someone.until(lambda seen: "stop after" in seen)
        append(run.events, Problem(node="train", culprit="config", text="the loss\x1b[2J is flat"))
        someone.until(lambda seen: "the loss [2J is flat" in seen and seen.endswith("> stop after "))
        someone.type("this one\r")
        someone.until(lambda seen: "finish after the open experiment. Understood." in seen)
        someone.type("/nonsense\r/status\r/help\r/quit\r")
        assert someone.leave() == 0
        assert "no /nonsense to say" in someone.seen
        assert "end the search after the open experiment" in someone.seen
    assert "stop after this one" in (run.root.parents[1] / "chat_history").read_text()
    with typing(run) as someone:  # who comes later sees what was said
        someone.until(lambda seen: seen.endswith("> "))
        someone.type("\x04")
        assert someone.leave() == 0
        assert "finish after the open experiment. Understood." in someone.seen


def test_where_a_chat_model_is_set_it_is_asked_for_what_the_rules_do_not_understand(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    understood = Said("", (Call("Understood", {"says": "It was the data."}),))
    with chat_server(lambda _: understood) as model:
        for name, value in {"CHAT_MODEL": "m", "OPENAI_API_KEY": "k", "OPENAI_API_BASE": model.url}.items():
            monkeypatch.setenv(name, value)
        said = chat("r1", "woran lag es wohl?")
    assert (said.exit_code, said.stdout) == (0, "m says: It was the data.\n")
    assert said.stderr == "Heard; m is asked what it means.\n"
