"""`tuneloop chat`: a run at work or idle, refused commands, a terminal with a line half typed."""

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

from tests.chat_server import Call, Reply, chat_server
from tuneloop.cli.main import cli
from tuneloop.core.directive_log import read_conversation, read_directives
from tuneloop.core.event_log import append
from tuneloop.core.events import RecipeFailure
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle.lock import hold_lock
from tuneloop.graph.lifecycle.rebuild import rebuild
from tuneloop.graph.steering import exchange
from tuneloop.graph.steering.message_handler import process_inbox
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
    """A process that holds the run and reads its inbox, as while a job runs."""
    over = threading.Event()

    def work() -> None:
        ctx = Context(run, Settings(FT_FILE_PATH=run.root.parents[1]), rebuild(run, Settings()))
        while not over.wait(0.02):
            process_inbox(ctx)

    with hold_lock(run.lock):
        worker = threading.Thread(target=work)
        worker.start()
        try:
            yield
        finally:
            over.set()
            worker.join()


def test_idle_run_answers_and_remembers(run: RunFolder) -> None:
    put(run.inbox, do="pause")  # from before; it stands still already
    result = chat("r1", "finish")
    assert (result.exit_code, "r1: Directive 1: finish" in result.stdout) == (0, True)
    assert "| 1 | open | finish after the open experiment | finish |" in chat("directives").stdout
    assert "Revoked: 1" in chat("r1", "/revoke 1").stdout
    assert [d.state for d in read_directives(run.directives)] == ["revoked"]
    assert waiting(run.inbox) == []


def test_answer_of_idle_run_imports_no_langgraph(run: RunFolder) -> None:
    code = """
import sys
from tuneloop.cli.main import cli
try: cli(["chat", "r1", "status"])
except SystemExit as e: print(e.code, *(m for m in ("langgraph", "langsmith", "numpy", "fastmcp") if m in sys.modules))
"""
    env = {**os.environ, "FT_FILE_PATH": str(run.root.parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=60)
    assert "r1: " in done.stdout
    assert done.stdout.splitlines()[-1] == "0", done


def test_piped_lines_are_sent_one_after_the_other(run: RunFolder) -> None:
    result = chat("--json", typed="finish\n\ndirectives\nuse lora_rank\n")
    first, second, third = map(json.loads, result.stdout.splitlines())
    assert (first["text"], first["refused"], third["refused"], result.exit_code) == ("finish", False, True, 2)
    assert second["text"] == "directives"
    assert first["id"] != second["id"]
    assert [line.who for line in read_conversation(run.conversation)] == ["user", "tuneloop"] * 3


UNKNOWN = ["/launch", "hello there", "statsu", "stop after this one"]
INCOMPLETE = ["use", "use lora_rank", "limit", "keep", "more", "delete", "publish", "run", "sources", "loss now"]
OUT_OF_RANGE = ["more cake", "revoke 7", "yes", "delete 1", "why 44", "ask often", "limit 32<=lora_rank<=8", "edit"]


@pytest.mark.parametrize("text", [*UNKNOWN, *INCOMPLETE, *OUT_OF_RANGE])
def test_refused_commands_end_with_code_2(run: RunFolder, text: str) -> None:
    result = chat("r1", text)
    assert (result.exit_code, len(result.stderr.splitlines()), result.stdout) == (2, 1, "")
    assert read_directives(run.directives) == []


@pytest.mark.parametrize("text", [name for name in INCOMPLETE if " " not in name])
def test_command_without_its_argument_is_told_with_what_is_right(run: RunFolder, text: str) -> None:
    assert f"right is `{text} " in chat("r1", text).stderr


@pytest.mark.parametrize("text", ["finish", "use lora_rank=32", "more 1h", "pause", "resume", "ask plan", "keep optim"])
def test_finished_run_takes_no_command(run: RunFolder, text: str) -> None:
    run.report_json.write_text("{}")
    result = chat("r1", text)
    assert (result.exit_code, len(result.stderr.splitlines()), result.stdout) == (2, 1, "")
    assert "tuneloop fork r1" in result.stderr
    assert read_directives(run.directives) == []


def test_run_that_does_not_exist_is_refused() -> None:
    result = chat("nothing", "finish")
    assert (result.exit_code, "no run 'nothing'" in result.stderr) == (2, True)


def test_working_run_answers_itself(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "answer_here", None)
    with at_work(run):
        assert "finish after the open experiment" in chat("r1", "finish").stdout
    assert len(read_directives(run.directives)) == 1


def test_answer_that_does_not_come_ends_with_code_1(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "TIMEOUT", 0.1)
    with hold_lock(run.lock):
        result = chat("r1", "finish")
        as_json = chat("r1", "status", "--json")
    assert (result.exit_code, "has not answered yet" in result.stderr) == (1, True)
    assert json.loads(as_json.stdout)["answer"] is None
    assert len(waiting(run.inbox)) == 2


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
    someone = Typist(*([run.id] if run.spec.is_file() else []))
    try:
        yield someone
    finally:
        someone.child.kill()
        os.close(someone.hand)


def test_events_appear_above_the_line_being_typed(run: RunFolder) -> None:
    with typing(run) as someone:
        someone.until(lambda seen: "> " in seen)
        someone.type("finis")
        someone.until(lambda seen: "finis" in seen)
        append(run.events, RecipeFailure(node="train", culprit="config", text="the loss\x1b[2J is flat"))
        someone.until(lambda seen: "the loss [2J is flat" in seen and seen.endswith("> finis"))
        someone.type("h\r")
        someone.until(lambda seen: "Directive 1: finish" in seen)
        someone.type("/nonsense\r/status\r/help\r/quit\r")
        assert someone.leave() == 0
        assert "is no command" in someone.seen
        assert "end after the open experiment" in someone.seen
    assert "finish" in (run.root.parents[1] / "chat_history").read_text()
    with typing(run) as someone:  # a later chat shows the conversation
        someone.until(lambda seen: seen.endswith("> "))
        someone.type("\x04")
        assert someone.leave() == 0
        assert "Directive 1: finish" in someone.seen


def test_resume_looks_whether_the_machine_that_was_last_at_work_still_is(run: RunFolder) -> None:
    """Its lease is fresh and goes on to be renewed: the command line says so."""
    lease, over = run.root / "lease" / "3.json", threading.Event()
    lease.parent.mkdir()
    lease.write_text('{"host": "other", "machine": "m", "pid": 1, "since": "2026-01-01T00:00:00Z"}')

    def renew() -> None:
        while not over.wait(0.2):
            os.utime(lease)

    with typing(run) as someone:
        threading.Thread(target=renew).start()
        try:
            someone.until(lambda seen: "> " in seen)
            someone.type("resume\r")
            someone.until(lambda seen: "looking for a sign of life" in seen)
            someone.until(lambda seen: "is worked on by other since" in seen, 120)
        finally:
            over.set()


def test_tab_completes_commands(run: RunFolder) -> None:
    with typing(run) as someone:
        someone.until(lambda seen: "> " in seen)
        someone.type("direc\t")
        someone.until(lambda seen: seen.endswith("> directives"))
        someone.type("\r")
        someone.until(lambda seen: "No directives." in seen)


def test_chat_without_a_run_can_start_one(tmp_path: Path) -> None:
    with typing(RunFolder(tmp_path)) as someone:
        someone.until(lambda seen: "There is no run yet" in seen)
        someone.type("status\r")
        someone.until(lambda seen: "there is no run yet" in seen)
        someone.type("run benchmark=nothing base_model=tiny\r")
        someone.until(lambda seen: "no benchmark" in seen or "'nothing'" in seen)
        someone.type("quit\r")
        assert someone.leave() == 0


def test_chat_model_is_asked_for_text_that_is_no_command(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    reply = Reply("", (Call("Interpretation", {"answer": "It was the data."}),))
    with chat_server(lambda _: reply) as model:
        for name, value in {"CHAT_MODEL": "m", "OPENAI_API_KEY": "k", "OPENAI_API_BASE": model.url}.items():
            monkeypatch.setenv(name, value)
        result = chat("r1", "woran lag es wohl?")
    assert (result.exit_code, result.stdout) == (0, "r1: m says: It was the data.\n")
    assert result.stderr == "r1: this is no command; m is asked what it means.\n"
