"""What was paid for once is not paid for again: after a kill, and when a run is replayed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.agents.chat.conftest import ANSWER, CANARY, GOOD, PROMPT, Sit, Table
from tests.chat_server import Call, Chat, Hang, Refuse, Reply, Said, chat_server
from tests.waiting import until
from tuneloop.cli.main import cli
from tuneloop.core.errors import InfrastructureError, RecipeError
from tuneloop.core.experiment import Critique
from tuneloop.core.files import digest, json_text
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.transcript import TranscriptStarted
from tuneloop.graph.agent_calls.replay import replay
from tuneloop.tools.llm_proxy.ledger import read_ledger, sums_by_job
from tuneloop.tools.runs.manifest import write_manifest

ROOT = Path(__file__).parents[3]
LOOK = Reply("Let me look.", (Call("data_look", {"where": "here"}), Call("data_count", {})))
MANY = Reply(
    "", (Call("data_look", {"where": "far"}), Call("data_count", {}), *[Call("data_look", {"where": "x"})] * 3)
)
PLACES = [Reply("", (Call("data_look", {"where": str(i)}),)) for i in range(24)]
AGAIN = Reply("", (Call("data_look", {"where": "there"}),))


def start_session(chat: Chat, run: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "tests.agents.chat.chat_session", chat.url, str(run)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_kill_in_the_middle_of_an_answer_pays_nothing_twice(tmp_path: Path) -> None:
    script: list[Said] = [LOOK, AGAIN, Hang(GOOD, 2), GOOD]
    with chat_server(lambda _: script.pop(0)) as chat:
        first = start_session(chat, tmp_path)
        until(lambda: len(chat.seen) == 3, 120)
        first.kill()
        first.communicate()
        second = start_session(chat, tmp_path)
        said, wrong = second.communicate(timeout=300)
    assert second.returncode == 0, wrong
    assert Critique.model_validate_json(said) == Critique.model_validate(ANSWER)
    assert len(chat.seen) == 4, "the two answered calls are not made again"
    assert chat.seen[3]["messages"] == chat.seen[2]["messages"]
    booked = list(read_ledger(RunFolder(tmp_path).ledger))
    assert [entry.outcome for entry in booked] == ["answered", "answered", "killed", "answered"]
    assert booked[2].tokens_in > 0
    assert sums_by_job(RunFolder(tmp_path).ledger)["agent:critic"].requests == 4
    assert not any(CANARY in path.read_text() for path in tmp_path.rglob("*") if path.is_file())


def test_an_answer_that_was_found_is_not_looked_for_again(sit: Sit) -> None:
    table = sit(LOOK, GOOD)
    found = table.ask()
    assert (table.ask(), len(table.chat.seen), len(table.tools.used)) == (found, 2, 2)
    bad = sit(Reply("no"))
    for _ in range(2):
        with pytest.raises(RecipeError, match="no usable answer"):
            bad.ask()
    assert len(bad.chat.seen) == 2 + 3


def test_a_torn_line_is_lost_alone(sit: Sit) -> None:
    table = sit(LOOK, AGAIN, GOOD)
    table.ask()
    whole = table.transcript().read_bytes().splitlines(keepends=True)
    table.transcript().write_bytes(b"".join(whole[:-3]) + whole[-3][:40])
    table.chat.say = lambda _: GOOD
    table.ask()
    assert len(table.chat.seen) == 3 + 1


def recorded(table: Table) -> RunFolder:
    """The table's run with what its agent was told and answered, as the graph writes it."""
    run = RunFolder(table.folder)
    place = run.experiment(1).answers / "critic.0"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.with_name("critic.0.md").write_text(PROMPT)
    with contextlib.suppress(RecipeError):
        place.with_name("critic.0.json").write_text(json_text(table.ask().model_dump(mode="json")))
    write_manifest(run, RunSpec(benchmark="b", base_model="m"))
    return run


CASES: dict[str, Any] = {
    "tools": ([LOOK, AGAIN, GOOD], {}),
    "faults": ([Refuse(500), LOOK, Refuse(429, headers={"Retry-After": "0"}), GOOD], {}),
    "another model": ([Refuse(429, "insufficient_quota"), LOOK, GOOD], {"TUNELOOP_CHAT_FALLBACKS": "second"}),
    "offline": ([LOOK, Refuse(429, "insufficient_quota")], {}),
    "repaired": ([Reply("well"), Reply("hm"), GOOD], {}),
    "at once": ([MANY, Reply("", (Call("read_more", {"result": "r1", "page": 2}),)), GOOD], {"looks": 9000}),
    "long": (
        [*[Reply("", (Call("data_look", {"where": str(i)}),)) for i in range(24)], GOOD],
        {"looks": 5000, "TUNELOOP_CHAT_STEPS": 40},
    ),
    "no answer": ([Reply("no")], {}),
    "too long": ([LOOK, Refuse(400, "maximum context length")], {}),
    "endless": ([LOOK], {"TUNELOOP_CHAT_STEPS": 5}),
    "words only": ([LOOK, GOOD], {"powers": {"tools": "refused", "response_format": "refused"}}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_is_replayed_bit_for_bit(sit: Sit, case: str) -> None:
    said, more = CASES[case]
    table = sit(*said, **{name: value for name, value in more.items() if name != "looks"})
    table.tools.looks = more.get("looks", 100)
    run = recorded(table)
    before = {path: path.read_bytes() for path in run.root.rglob("*") if path.is_file()}
    asked, used = len(table.chat.seen), len(table.tools.used)
    found = list(replay(run, table.settings.model_copy(update={"chat_model": None, "api_key": None, "chat_steps": 99})))
    assert [(r.experiment, r.agent, r.attempt, r.verdict, r.says) for r in found] == [(1, "critic", 0, "same", "")]
    assert (len(table.chat.seen), len(table.tools.used)) == (asked, used)
    assert before == {path: path.read_bytes() for path in run.root.rglob("*") if path.is_file()}


def test_reworded_prompt_after_interruption_is_replayed(sit: Sit) -> None:
    """A directive was heard meanwhile, say: the agent is told of it, and that is what it answers."""
    table = sit(LOOK, Refuse(401), LOOK, GOOD)
    with pytest.raises(InfrastructureError):
        table.ask(prompt=f"{PROMPT} Be kind.")
    run = recorded(table)
    assert [line.prompt for line in table.lines if isinstance(line, TranscriptStarted)] == [
        digest(f"{PROMPT} Be kind."),
        digest(PROMPT),
    ]
    (found,) = replay(run, table.settings)
    assert (found.verdict, found.says) == ("same", "")


def test_a_difference_is_named(sit: Sit, monkeypatch: pytest.MonkeyPatch) -> None:
    table = sit(LOOK, GOOD)
    run = recorded(table)
    monkeypatch.setenv("FT_FILE_PATH", str(run.root.parent.parent))
    same = CliRunner().invoke(cli, ["replay"])
    assert (same.exit_code, same.output) == (0, "experiment 1, critic, attempt 0: same\n")
    answer = run.experiment(1).answers / "critic.0.json"
    answer.write_text(answer.read_text().replace("Keep the form.", "Drop the form."))
    other = CliRunner().invoke(cli, ["replay", run.id])
    assert other.exit_code == 1
    assert "attempt 0: differs: at letter" in other.output
    assert "Keep the form" in other.output


def test_a_transcript_is_readable(sit: Sit, monkeypatch: pytest.MonkeyPatch) -> None:
    table = sit(Refuse(500), LOOK, GOOD)
    run = recorded(table)
    monkeypatch.setenv("FT_FILE_PATH", str(run.root.parent.parent))
    shown = CliRunner().invoke(cli, ["replay", "--show"]).output
    for part in (
        "# Experiment 1: critic.0", "critic (chat m) is asked for a Critique.", "You are the critic.", "m failed",
        "wants **data_look** `{\"where\": \"here\"}`", "abcdefghij", "## Answer of m", "Keep the form.",
    ):  # fmt: skip
        assert part in shown
    assert shown.count("You are the critic.") == 1


def test_a_run_without_transcripts_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder(tmp_path / "home" / "runs" / "r")
    run.root.mkdir(parents=True)
    write_manifest(run, RunSpec(benchmark="b", base_model="m"))
    assert "the offline policy decides by itself" in CliRunner().invoke(cli, ["replay"]).output
