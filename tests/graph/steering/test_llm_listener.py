"""Text that is no command goes to a chat model: acknowledged first, asked once; what it may not do alone is offered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import Call, Refuse, Reply, Said, chat_server
from tuneloop.core.directive import Bound, Directive, Use
from tuneloop.core.directive_log import append_row, open_directives, read_conversation, read_directives
from tuneloop.core.errors import PausedError
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.agent_calls.replay import replay
from tuneloop.graph.context import Context
from tuneloop.graph.state import State
from tuneloop.graph.steering import llm_listener
from tuneloop.graph.steering.inbox_listener import has_messages, listening, raise_if_paused
from tuneloop.graph.steering.llm_listener import answer_waiting, converse
from tuneloop.tools.llm_proxy.ledger import read_ledger
from tuneloop.tools.runs.manifest import write_manifest
from tuneloop.tools.runs.messages import acknowledgement, answer, say, waiting

ODD = "der Rang soll 32 sein"
RANK = "use lora_rank=32"


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

    def means(self, *commands: str, answer: str = "") -> None:
        call = Call("Interpretation", {"commands": list(commands), "answer": answer})
        self.says = Reply("", (call,), usage=(100, 10, 0))


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


def wait_until(true: Callable[[], object]) -> None:
    while not true():
        threading.Event().wait(0.02)


def test_message_is_acknowledged_and_others_are_answered_meanwhile(ctx: Context, model: Model) -> None:
    model.means(RANK)
    model.may.clear()
    with listening(ctx):
        odd = say(ctx.run, ODD)
        wait_until(lambda: acknowledgement(ctx.run, odd))
        plain = say(ctx.run, "limit learning_rate<=1e-4")
        wait_until(lambda: answer(ctx.run, plain))
        assert answer(ctx.run, odd) is None
        model.may.set()
        wait_until(lambda: answer(ctx.run, odd))
    assert [(d.id, d.text) for d in open_directives(ctx.run.directives)][1] == ("2", RANK)
    assert open_directives(ctx.run.directives)[1].command == Use(parameter="lora_rank", value=32)
    wait_until(lambda: not waiting(ctx.run.heard))
    assert [(e.job, e.outcome, e.tokens_in) for e in read_ledger(ctx.run.ledger)] == [
        ("agent:listener", "answered", 100)
    ]
    assert [(r.experiment, r.agent, r.verdict) for r in replay(ctx.run, ctx.settings)] == [(0, "listener", "same")]


def test_message_reread_after_kill_gets_same_answer_for_free(ctx: Context, model: Model) -> None:
    model.means(RANK, answer="As you like.")
    first = converse(ctx, "7", ODD)
    lines = ctx.run.conversation.read_text().splitlines(keepends=True)
    ctx.run.conversation.write_text("".join(lines[:-1]))  # killed between the effect and the answer
    model.means("pause")
    assert converse(ctx, "7", ODD) == first
    assert converse(ctx, "7", ODD) == first
    assert (len(model.asked), len(read_directives(ctx.run.directives))) == (1, 1)
    assert [line.id for line in read_conversation(ctx.run.conversation)] == ["7", "7.read", "7.answer"]


def test_model_cannot_revoke_confirm_end_spend_or_delete(ctx: Context, model: Model) -> None:
    bound = Directive(id="1", text="-", command=Bound(parameter="learning_rate", at_most=1e-4))
    append_row(ctx.run.directives, bound)
    model.means("yes", "revoke 1", "ask never", "more 50 experiments", "delete 1", "finish", "edit")
    text = converse(ctx, "7", 'what do you make of "yes, go on alone, and delete experiment 1"').text
    assert "must come from you" in text and "`revoke 1`" in text
    assert open_directives(ctx.run.directives) == [bound]
    offers = read_conversation(ctx.run.conversation)[-1].offers
    assert offers == ("ask never", "more 50 experiments", "delete 1", "finish")


@pytest.mark.parametrize("command", ["finish", "ask plan", "more 2 experiments", "limit learning_rate<=1"])
def test_what_ends_moves_or_replaces_something_waits_for_a_yes(ctx: Context, model: Model, command: str) -> None:
    bound = Directive(id="1", text="-", command=Bound(parameter="learning_rate", at_most=1e-4))
    append_row(ctx.run.directives, bound)
    model.means(command)
    assert "yes" in converse(ctx, "7", ODD).text
    assert open_directives(ctx.run.directives) == [bound]
    assert converse(ctx, "8", "yes").complete
    assert command in [d.text for d in open_directives(ctx.run.directives)]
    assert len(model.asked) == 1, "a yes is a command"


def test_model_that_breaks_leaves_the_message_answered(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr(llm_listener, "ask", broken)
    assert "gave no answer: ValueError" in converse(ctx, "7", ODD).text


def test_question_is_answered_in_words_and_changes_nothing(ctx: Context, model: Model) -> None:
    model.means(answer="Rank 256 needs more memory than there is.")
    text = converse(ctx, "7", "would a rank of 256 blow up the memory?").text
    assert text == "r1: m says: Rank 256 needs more memory than there is."
    prompt = str(model.asked[0]["messages"])
    assert "would a rank of 256" in prompt and "0 experiments are over" in prompt
    assert not read_directives(ctx.run.directives)


@pytest.mark.parametrize(
    ("reply", "reason"), [(Refuse(401, "no such key"), "refuses m"), (Reply("", refusal="No."), "gave no")]
)
def test_model_without_answer_changes_nothing(ctx: Context, model: Model, reply: Said, reason: str) -> None:
    model.says = reply
    text = converse(ctx, "7", ODD).text
    assert "nothing was changed" in text and reason in text
    assert not read_directives(ctx.run.directives)


def test_command_with_a_slash_never_reaches_the_model(ctx: Context, model: Model) -> None:
    converse(ctx, "7", "/fnish")
    converse(ctx, "8", "status")
    assert model.asked == []


def test_pause_of_the_model_reaches_the_node(ctx: Context, model: Model) -> None:
    model.means("pause")
    with pytest.raises(PausedError), listening(ctx):
        say(ctx.run, "Halt mal kurz an")
        wait_until(lambda: has_messages(ctx))
        raise_if_paused(ctx)
    assert read_directives(ctx.run.directives) == []


def test_message_left_by_an_ended_process_is_answered_by_the_next(ctx: Context, model: Model) -> None:
    model.means(RANK)
    ctx.run.heard.mkdir(parents=True)
    message = say(ctx.run, ODD)
    waiting(ctx.run.inbox)[0].replace(ctx.run.heard / f"{message}.json")
    answer_waiting(ctx, pytest.fail)
    assert answer(ctx.run, message) is not None
