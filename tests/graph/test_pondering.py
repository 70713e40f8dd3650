"""What the rules do not understand a chat model reads: acknowledged first, asked once, its guesses kept within bounds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import Call, Refuse, Reply, Said, chat_server
from tuneloop.core.directive import Bound, Directive, Pause, Publish, Use
from tuneloop.core.directive_log import open_directives, read_conversation, read_directives, write_down
from tuneloop.core.errors import Paused
from tuneloop.core.run import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph import pondering
from tuneloop.graph.context import Context
from tuneloop.graph.ear import called, heed, listening
from tuneloop.graph.pondering import converse, think
from tuneloop.graph.replay import replay
from tuneloop.graph.state import State
from tuneloop.tools.llm_proxy.ledger import read_ledger
from tuneloop.tools.runs.inbox import waiting
from tuneloop.tools.runs.manifest import write_manifest
from tuneloop.tools.runs.talking import acknowledgement, answer, say

ODD = "der Rang soll 32 sein"
RANK = {"kind": "use", "parameter": "lora_rank", "value": 32}


class Model:
    """Says what it is told to say, once it may."""

    def __init__(self) -> None:
        self.says: Said = Reply()
        self.may = threading.Event()
        self.may.set()
        self.asked = list[dict[str, Any]]()

    def __call__(self, asked: dict[str, Any]) -> Said:
        self.asked.append(asked)
        assert self.may.wait(60)
        return self.says

    def means(self, *meanings: dict[str, Any], says: str = "") -> None:
        self.says = Reply("", (Call("Understood", {"meanings": list(meanings), "says": says}),), usage=(100, 10, 0))


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def ctx(tmp_path: Path, model: Model) -> Iterator[Context]:
    with chat_server(model) as chat:
        settings = Settings(FT_FILE_PATH=tmp_path, CHAT_MODEL="m", OPENAI_API_KEY="k", OPENAI_API_BASE=chat.url)
        run = settings.home.run("r1")
        write_manifest(run, RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=2))
        yield Context(run, settings, State(run_id="r1", experiment=1))


def until(true: Callable[[], object]) -> None:
    while not true():
        threading.Event().wait(0.02)


def test_it_is_acknowledged_before_the_model_is_asked_and_others_are_heard_meanwhile(
    ctx: Context, model: Model
) -> None:
    model.means(RANK)
    model.may.clear()
    with listening(ctx):
        odd = say(ctx.run, ODD)
        until(lambda: acknowledgement(ctx.run, odd))
        plain = say(ctx.run, "never raise the learning rate above 1e-4")
        until(lambda: answer(ctx.run, plain))
        assert answer(ctx.run, odd) is None
        model.may.set()
        until(lambda: answer(ctx.run, odd))
    assert [(d.id, d.said) for d in open_directives(ctx.run.directives)][1] == ("2", ODD)
    assert open_directives(ctx.run.directives)[1].wish == Use(parameter="lora_rank", value=32)
    until(lambda: not waiting(ctx.run.heard))
    assert [(e.job, e.outcome, e.tokens_in) for e in read_ledger(ctx.run.ledger)] == [
        ("agent:listener", "answered", 100)
    ]
    assert [(r.experiment, r.agent, r.verdict) for r in replay(ctx.run, ctx.settings)] == [(0, "listener", "same")]


def test_heard_again_after_a_kill_it_gets_the_same_answer_and_costs_nothing(ctx: Context, model: Model) -> None:
    model.means(RANK, says="As you like.")
    first = converse(ctx, "7", ODD)
    said = ctx.run.conversation.read_text().splitlines(keepends=True)
    ctx.run.conversation.write_text("".join(said[:-1]))  # killed between the effect and the answer
    model.means({"kind": "pause"})
    assert converse(ctx, "7", ODD) == first
    assert converse(ctx, "7", ODD) == first
    assert (len(model.asked), len(read_directives(ctx.run.directives))) == (1, 1)
    assert [line.id for line in read_conversation(ctx.run.conversation)] == ["7", "7.heard", "7.answer"]


def test_a_guess_frees_ends_spends_and_removes_nothing(ctx: Context, model: Model) -> None:
    bound = Directive(id="1", said="lr <= 1e-4", wish=Bound(parameter="learning_rate", at_most=1e-4))
    waits = Directive(id="2", said="push it", wish=Publish(to="hub"), state="pending")
    write_down(ctx.run.directives, bound)
    write_down(ctx.run.directives, waits)
    model.means(
        {"kind": "reply", "yes": True}, {"kind": "revoke", "ids": ["1"]}, {"kind": "approve", "at": "none"},
        {"kind": "extend", "experiments": 50}, {"kind": "delete", "what": "experiment 1"}, {"kind": "finish"},
    )  # fmt: skip
    text = converse(ctx, "7", 'what do you make of "yes, go on alone, and delete experiment 1"').text
    assert "say: revoke 1" in text and "plain words" in text
    assert text.count("Say this again after that.") == 4
    assert open_directives(ctx.run.directives) == [bound]
    assert [d for d in read_directives(ctx.run.directives) if d.state == "pending"] == [waits], "a yes is meant for it"
    assert converse(ctx, "8", "yes").over
    assert open_directives(ctx.run.directives) == [bound]
    assert len(model.asked) == 1, "rules read a yes"


@pytest.mark.parametrize(
    "meant",
    [
        {"kind": "finish"},
        {"kind": "approve", "at": "plan"},
        {"kind": "bound", "parameter": "learning_rate", "at_most": 1},
    ],
)
def test_a_guess_that_ends_or_replaces_something_waits_for_a_yes(
    ctx: Context, model: Model, meant: dict[str, Any]
) -> None:
    bound = Directive(id="1", said="lr <= 1e-4", wish=Bound(parameter="learning_rate", at_most=1e-4))
    write_down(ctx.run.directives, bound)
    model.means(meant)
    assert "yes" in converse(ctx, "7", ODD).text
    assert open_directives(ctx.run.directives) == [bound]
    converse(ctx, "8", "yes")
    assert meant["kind"] in [d.wish.kind for d in open_directives(ctx.run.directives) if d.wish != bound.wish]


def test_whatever_becomes_of_the_model_the_message_is_answered(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr(pondering, "consult", broken)
    assert "gave no answer: ValueError" in converse(ctx, "7", ODD).text


def test_a_question_is_answered_in_words_and_changes_nothing(ctx: Context, model: Model) -> None:
    model.means(says="Rank 256 needs more memory than there is.")
    assert converse(ctx, "7", "would a rank of 256 blow up the memory?").text == (
        "m says: Rank 256 needs more memory than there is."
    )
    told = str(model.asked[0]["messages"])
    assert "would a rank of 256" in told and "0 experiments are over" in told
    assert not read_directives(ctx.run.directives)


def test_what_the_rules_understand_of_a_message_is_done_at_once(ctx: Context, model: Model) -> None:
    model.means(says="Nobody knows.")
    text = converse(ctx, "7", "Never raise the learning rate above 1e-4. Und wie wird das Wetter?").text
    assert text.splitlines()[0].startswith("1: learning_rate at most 0.0001")
    assert text.splitlines()[-1] == "m says: Nobody knows."
    assert len(read_directives(ctx.run.directives)) == 1


@pytest.mark.parametrize(
    ("says", "why"), [(Refuse(401, "no such key"), "refuses m"), (Reply("", refusal="No."), "gave no")]
)
def test_without_an_answer_of_the_model_it_is_unclear_and_said_why(
    ctx: Context, model: Model, says: Said, why: str
) -> None:
    model.says = says
    text = converse(ctx, "7", ODD).text
    assert "changed nothing" in text and why in text
    assert not read_directives(ctx.run.directives)


def test_a_pause_that_the_model_read_reaches_the_node(ctx: Context, model: Model) -> None:
    model.means({"kind": "pause"})
    with pytest.raises(Paused), listening(ctx):
        say(ctx.run, "Halt mal kurz an")
        until(lambda: called(ctx))
        heed(ctx)
    assert [d.wish for d in read_directives(ctx.run.directives)] == [Pause()]


def test_what_was_heard_when_the_sitting_ended_is_answered_in_the_next(ctx: Context, model: Model) -> None:
    model.means(RANK)
    ctx.run.heard.mkdir(parents=True)
    message = say(ctx.run, ODD)
    waiting(ctx.run.inbox)[0].replace(ctx.run.heard / f"{message}.json")
    think(ctx, pytest.fail)
    assert answer(ctx.run, message) is not None
