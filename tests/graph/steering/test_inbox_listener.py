"""While a node works, messages are answered by a thread of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from langgraph.errors import GraphInterrupt

from tuneloop.core.async_bridge import raise_if_interrupted
from tuneloop.core.directive_log import open_directives
from tuneloop.core.errors import PausedError
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.state import State
from tuneloop.graph.steering.inbox_listener import answer_offline, has_messages, listening, raise_if_paused
from tuneloop.tools.runs.manifest import write_manifest
from tuneloop.tools.runs.messages import answer, drop_pauses, put, say, waiting


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    settings = Settings(FT_FILE_PATH=tmp_path)
    run = settings.home.run("r1")
    write_manifest(run, RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=2))
    return Context(run, settings, State(run_id="r1", experiment=1))


def wait_until(true: Callable[[], object]) -> None:
    while not true():
        threading.Event().wait(0.02)


def test_message_is_answered_while_the_node_does_not_look(ctx: Context) -> None:
    with listening(ctx):
        message = say(ctx.run, "finish")
        wait_until(lambda: answer(ctx.run, message))
        assert [d.text for d in open_directives(ctx.run.directives)] == ["finish"]
        raise_if_paused(ctx)


def test_pause_reaches_the_node(ctx: Context) -> None:
    with pytest.raises(PausedError), listening(ctx):
        say(ctx.run, "pause")
        wait_until(lambda: has_messages(ctx))
        raise_if_paused(ctx)
    assert waiting(ctx.run.inbox) == []


def test_long_work_inside_a_node_hears_a_pause(ctx: Context) -> None:
    """Who catches it there loses nothing: the node hears it all the same."""
    raise_if_interrupted()
    with pytest.raises(PausedError), listening(ctx):
        put(ctx.run.inbox, do="pause")
        wait_until(lambda: has_messages(ctx))
        with pytest.raises(PausedError):
            raise_if_interrupted()
        raise_if_paused(ctx)


def test_pause_that_a_node_missed_stops_the_next_one(ctx: Context) -> None:
    with listening(ctx):
        put(ctx.run.inbox, do="pause")
        wait_until(lambda: has_messages(ctx))
    drop_pauses(waiting(ctx.run.inbox))
    with pytest.raises(PausedError), listening(ctx):
        pytest.fail("the node began")
    raise_if_paused(ctx)


def test_pause_is_kept_while_the_node_asks_a_person(ctx: Context) -> None:
    with pytest.raises(GraphInterrupt), listening(ctx):
        put(ctx.run.inbox, do="pause")
        wait_until(lambda: has_messages(ctx))
        raise GraphInterrupt
    with pytest.raises(PausedError), listening(ctx):
        pytest.fail("the node began")


def test_error_of_the_thread_is_raised_by_the_node(ctx: Context) -> None:
    with pytest.raises(ValueError, match="is damaged"), listening(ctx):
        ctx.run.inbox.mkdir(exist_ok=True)
        (ctx.run.inbox / "1.json").write_text("torn")
        wait_until(lambda: has_messages(ctx))
        raise_if_paused(ctx)


def test_without_a_thread_the_node_reads_the_inbox(ctx: Context) -> None:
    message = say(ctx.run, "status")
    assert has_messages(ctx)
    raise_if_paused(ctx)
    assert answer(ctx.run, message)
    assert not has_messages(ctx)


def test_idle_run_is_answered_and_stays_startable(ctx: Context) -> None:
    messages = [say(ctx.run, text) for text in ("pause", "use lora_rank=4")]
    answer_offline(ctx.run, ctx.settings)
    assert all(answer(ctx.run, message) for message in messages)
    with listening(ctx):
        raise_if_paused(ctx)
