from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.directive import Bound, Delete, Directive, Extend, Finish, dangerous
from tuneloop.core.directive_log import open_directives, read_conversation, read_directives, write_down
from tuneloop.core.errors import Paused
from tuneloop.core.event_log import every_event
from tuneloop.core.run import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.budget import asked_to_finish, experiments_limit, seconds_limit
from tuneloop.graph.context import Context
from tuneloop.graph.hearing import hear, obey
from tuneloop.graph.state import State
from tuneloop.tools.runs.inbox import put, waiting
from tuneloop.tools.runs.manifest import write_manifest


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    settings = Settings(FT_FILE_PATH=tmp_path)
    run = settings.home.run("r1")
    write_manifest(run, RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=2, timeout=3600))
    return Context(run, settings, State(run_id="r1", experiment=1))


def test_a_pause_is_obeyed_once(ctx: Context) -> None:
    obey(ctx)
    put(ctx.run.inbox, do="pause")
    assert len(waiting(ctx.run.inbox)) == 1
    with pytest.raises(Paused):
        obey(ctx)
    obey(ctx)
    assert waiting(ctx.run.inbox) == []


def test_a_message_is_answered_and_its_wish_is_kept(ctx: Context) -> None:
    message = put(ctx.run.inbox, do="say", text="Please stop after this one.").stem
    obey(ctx)
    asked, answer = read_conversation(ctx.run.conversation)
    assert (asked.id, asked.text, answer.answers) == (message, "Please stop after this one.", message)
    assert "finish after the open experiment" in answer.text
    assert asked_to_finish(ctx.run)
    assert [event.kind for event in every_event(ctx.run.events)] == ["told"]
    assert waiting(ctx.run.inbox) == []


def test_a_message_that_a_crash_left_in_the_inbox_has_no_second_effect(ctx: Context) -> None:
    put(ctx.run.inbox, do="say", text="stop after this one")
    left = waiting(ctx.run.inbox)[0]
    again = left.read_bytes()
    obey(ctx)
    left.write_bytes(again)  # killed before it was taken away
    obey(ctx)
    assert len(read_directives(ctx.run.directives)) == 1
    first = read_directives(ctx.run.directives)[0]
    lines = ctx.run.conversation.read_text().splitlines()
    ctx.run.conversation.write_text(lines[0] + "\n" + lines[1][:20])  # killed while the answer was written
    assert (
        hear(ctx, left.stem, "stop after this one")[0] == f"{first.id}: finish after the open experiment. Understood."
    )
    assert read_directives(ctx.run.directives) == [first]


def test_pausing_by_word(ctx: Context) -> None:
    put(ctx.run.inbox, do="say", text="pause")
    with pytest.raises(Paused):
        obey(ctx)
    obey(ctx)
    assert open_directives(ctx.run.directives) == []


def test_what_is_not_understood_changes_nothing(ctx: Context) -> None:
    heard = hear(ctx, "1", "the weather is nice")
    assert "changed nothing" in heard.text
    assert heard.over and not heard.pause
    assert read_directives(ctx.run.directives) == []


def test_a_directive_is_taken_back(ctx: Context) -> None:
    hear(ctx, "1", "stop after this one")
    assert "Taken back: 1" in hear(ctx, "2", "revoke 1")[0]
    assert not asked_to_finish(ctx.run)
    assert "no such directive" in hear(ctx, "3", "revoke 1")[0]


def test_what_is_dangerous_waits_for_a_yes(ctx: Context) -> None:
    assert dangerous(Delete(what="run r1"))
    assert dangerous(Extend(money=5))
    assert not dangerous(Extend(seconds=60))
    wish = Delete(what="experiment 1")
    write_down(ctx.run.directives, Directive(id="1", said="delete experiment 1", wish=wish, state="pending"))
    assert open_directives(ctx.run.directives) == []
    assert "Left alone" in hear(ctx, "1", "no")[0]
    assert [d.state for d in read_directives(ctx.run.directives)] == ["revoked"]
    assert "Nothing waits" in hear(ctx, "2", "yes")[0]


def test_more_time_and_more_experiments(ctx: Context) -> None:
    spec = ctx.bench.spec
    more = Directive(id="1", said="two more hours", wish=Extend(seconds=7200, experiments=1))
    write_down(ctx.run.directives, more)
    assert (seconds_limit(ctx.run, spec), experiments_limit(ctx.run, spec)) == (10800, 3)
    assert ctx.seconds_left() == 10800
    write_down(ctx.run.directives, more.model_copy(update={"state": "revoked"}))
    assert (seconds_limit(ctx.run, spec), experiments_limit(ctx.run, spec)) == (3600, 2)
    assert seconds_limit(ctx.run, spec.model_copy(update={"timeout": None})) is None


def test_a_bound_has_an_end() -> None:
    with pytest.raises(ValueError, match="at_most, at_least or both"):
        Bound(parameter="learning_rate")
    with pytest.raises(ValueError, match="above"):
        Bound(parameter="learning_rate", at_least=2, at_most=1)
    assert Bound(parameter="learning_rate", at_most=1e-4).at_least is None
    assert not dangerous(Finish())


def test_undo_and_yes_that_a_crash_left_in_the_inbox_take_no_second_one(ctx: Context) -> None:
    """Killed between the effect and the answer, a message is heard again."""
    hear(ctx, "1", "stop after this one")
    hear(ctx, "2", "never raise the learning rate above 1e-4")
    hear(ctx, "3", "undo that")
    forget_the_answer_to(ctx, "3")
    assert "2 (never raise" in hear(ctx, "3", "undo that")[0]
    assert [d.state for d in read_directives(ctx.run.directives)] == ["open", "revoked"]
    wishes = [Extend(money=5), Extend(money=7)]
    for number, wish in enumerate(wishes, 3):
        given = Directive(id=str(number), said="spend more", wish=wish, state="pending")
        write_down(ctx.run.directives, given)
    hear(ctx, "5", "yes")
    forget_the_answer_to(ctx, "5")
    hear(ctx, "5", "yes")
    assert [d.state for d in read_directives(ctx.run.directives)[2:]] == ["pending", "open"]


def test_a_yes_that_a_crash_left_in_the_inbox_means_the_same_when_nothing_waits_any_more(ctx: Context) -> None:
    hear(ctx, "1", "delete the run")
    said = hear(ctx, "2", "yes").text
    forget_the_answer_to(ctx, "2")
    assert hear(ctx, "2", "yes").text == said


def forget_the_answer_to(ctx: Context, message: str) -> None:
    lines = ctx.run.conversation.read_text().splitlines(keepends=True)
    ctx.run.conversation.write_text("".join(line for line in lines if f'"answers":"{message}"' not in line))
