"""Each message is answered once and has one effect, also when it is read again after a kill."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.directive import Approve, Bound, Directive, Extend
from tuneloop.core.directive_log import append_row, open_directives, read_conversation, read_directives
from tuneloop.core.errors import PausedError
from tuneloop.core.event_log import iter_events
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.budget.limits import experiments_limit, is_finish_requested, seconds_limit
from tuneloop.graph.context import Context
from tuneloop.graph.state import State
from tuneloop.graph.steering import message_handler
from tuneloop.graph.steering.message_handler import handle, process_inbox
from tuneloop.tools.runs.manifest import write_manifest
from tuneloop.tools.runs.messages import put, waiting


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    settings = Settings(FT_FILE_PATH=tmp_path)
    run = settings.home.run("r1")
    write_manifest(run, RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=2, timeout=3600))
    return Context(run, settings, State(run_id="r1", experiment=1))


def forget_answer(ctx: Context, message: str) -> None:
    """As a kill between the effect and the answer leaves it."""
    lines = ctx.run.conversation.read_text().splitlines(keepends=True)
    ctx.run.conversation.write_text("".join(line for line in lines if f'"answers":"{message}"' not in line))


@pytest.mark.parametrize("message", [{"do": "pause"}, {"do": "say", "text": "pause"}])
def test_pause_is_obeyed_once(ctx: Context, message: dict[str, str]) -> None:
    process_inbox(ctx)
    put(ctx.run.inbox, **message)
    with pytest.raises(PausedError):
        process_inbox(ctx)
    process_inbox(ctx)
    assert waiting(ctx.run.inbox) == []
    assert open_directives(ctx.run.directives) == []


def test_message_is_answered_and_its_directive_kept(ctx: Context) -> None:
    message = put(ctx.run.inbox, do="say", text="/finish").stem
    process_inbox(ctx)
    asked, answer = read_conversation(ctx.run.conversation)
    assert (asked.id, asked.text, answer.answers, answer.refused) == (message, "/finish", message, False)
    assert answer.text.startswith("r1: "), "the answer names the run"
    assert is_finish_requested(ctx.run)
    assert [event.kind for event in iter_events(ctx.run.events)] == ["message_answered"]
    assert waiting(ctx.run.inbox) == []


def test_message_read_again_has_no_second_effect(ctx: Context) -> None:
    put(ctx.run.inbox, do="say", text="more 1h")
    file = waiting(ctx.run.inbox)[0]
    content = file.read_bytes()
    process_inbox(ctx)
    first = read_directives(ctx.run.directives)
    answer = read_conversation(ctx.run.conversation)[-1].text
    file.write_bytes(content)  # killed before it was removed
    process_inbox(ctx)
    lines = ctx.run.conversation.read_text().splitlines()
    ctx.run.conversation.write_text(lines[0] + "\n" + lines[1][:20])  # killed while the answer was written
    assert handle(ctx, file.stem, "more 1h").text == answer
    assert read_directives(ctx.run.directives) == first


@pytest.mark.parametrize("text", ["the weather is nice", "/nonsense", "use lora_rank", "more cake", "why not"])
def test_other_text_is_refused_and_changes_nothing(ctx: Context, text: str) -> None:
    handled = handle(ctx, "1", text)
    assert handled.complete and not handled.pause
    assert read_conversation(ctx.run.conversation)[-1].refused or read_conversation(ctx.run.conversation)[-1].offers
    assert read_directives(ctx.run.directives) == []


def test_nearest_command_is_offered_and_done_after_a_yes(ctx: Context) -> None:
    assert "`finish`" in handle(ctx, "1", "stop after this one please").text
    assert not is_finish_requested(ctx.run)
    handle(ctx, "2", "yes")
    assert is_finish_requested(ctx.run)


def test_slip_in_the_name_keeps_the_arguments(ctx: Context) -> None:
    handle(ctx, "1", "limmit num_train_epochs<=3")
    handle(ctx, "2", "yes")
    assert [d.command for d in open_directives(ctx.run.directives)] == [Bound(parameter="num_train_epochs", at_most=3)]


@pytest.mark.parametrize(
    "text", ["limit num_train_epochs<=1e999", "limit -1e999<=lora_rank", "limit 1e999<=lora_rank<=3"]
)
def test_a_number_beyond_all_numbers_is_refused(ctx: Context, text: str) -> None:
    handle(ctx, "0", "limit num_train_epochs<=3")
    put(ctx.run.inbox, do="say", text=text)
    process_inbox(ctx)
    answer = read_conversation(ctx.run.conversation)[-1]
    assert answer.refused and "no bound in" in answer.text
    assert Bound(parameter="num_train_epochs", at_most=3) in [d.command for d in open_directives(ctx.run.directives)]
    assert waiting(ctx.run.inbox) == []


def test_a_command_that_breaks_is_answered_and_gone(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OverflowError("too large")

    monkeypatch.setattr(message_handler, "carry_out", broken)
    put(ctx.run.inbox, do="say", text="finish")
    process_inbox(ctx)
    answer = read_conversation(ctx.run.conversation)[-1]
    assert answer.refused and "'finish' cannot be carried out: OverflowError: too large" in answer.text
    assert waiting(ctx.run.inbox) == []


def test_offer_counts_for_the_next_message_only(ctx: Context) -> None:
    handle(ctx, "1", "stop after this one")
    handle(ctx, "2", "budget")
    assert "Nothing waits" in handle(ctx, "3", "yes").text
    handle(ctx, "4", "stop after this one")
    assert "Nothing was changed" in handle(ctx, "5", "no").text
    assert "Nothing waits" in handle(ctx, "6", "yes").text
    assert not is_finish_requested(ctx.run)


def test_directive_is_revoked(ctx: Context) -> None:
    handle(ctx, "1", "finish")
    assert "Revoked: 1" in handle(ctx, "2", "revoke 1").text
    assert not is_finish_requested(ctx.run)
    handle(ctx, "3", "revoke 1")
    assert read_conversation(ctx.run.conversation)[-1].refused


def test_revoke_and_yes_after_a_kill_take_no_second_one(ctx: Context) -> None:
    handle(ctx, "1", "finish")
    handle(ctx, "2", "ask plan")
    first = handle(ctx, "3", "revoke 2").text
    forget_answer(ctx, "3")
    assert handle(ctx, "3", "revoke 2").text == first
    handle(ctx, "4", "stop after this one")
    handle(ctx, "5", "ask launch")
    handle(ctx, "6", "ask me before each training")
    handle(ctx, "7", "undo that")
    assert [d.command for d in open_directives(ctx.run.directives)][1:] == [Approve(at="launch")]


def test_yes_after_a_kill_means_the_same(ctx: Context) -> None:
    handle(ctx, "1", "wrap it up")
    first = handle(ctx, "2", "yes").text
    forget_answer(ctx, "2")
    assert handle(ctx, "2", "yes").text == first
    assert len(read_directives(ctx.run.directives)) == 1


def test_more_time_and_more_experiments(ctx: Context) -> None:
    spec = ctx.run_tools.spec
    more = Directive(id="1", text="-", command=Extend(seconds=7200, experiments=1))
    append_row(ctx.run.directives, more)
    assert (seconds_limit(ctx.run, spec), experiments_limit(ctx.run, spec)) == (10800, 3)
    assert ctx.seconds_left() == 10800
    append_row(ctx.run.directives, more.model_copy(update={"state": "revoked"}))
    assert (seconds_limit(ctx.run, spec), experiments_limit(ctx.run, spec)) == (3600, 2)
    assert seconds_limit(ctx.run, spec.model_copy(update={"timeout": None})) is None
