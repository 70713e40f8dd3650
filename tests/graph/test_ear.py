"""People are heard by a thread of its own, whatever a node does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from langgraph.errors import GraphInterrupt

from tuneloop.core.directive_log import open_directives
from tuneloop.core.errors import Paused
from tuneloop.core.run import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.ear import called, heed, listening
from tuneloop.graph.state import State
from tuneloop.tools.runs.inbox import put, waiting
from tuneloop.tools.runs.manifest import write_manifest
from tuneloop.tools.runs.talking import answer, say


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    settings = Settings(FT_FILE_PATH=tmp_path)
    run = settings.home.run("r1")
    write_manifest(run, RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=2))
    return Context(run, settings, State(run_id="r1", experiment=1))


def until(true: Callable[[], object]) -> None:
    while not true():
        threading.Event().wait(0.02)


def test_a_node_that_never_looks_up_is_told_nothing_and_people_are_answered(ctx: Context) -> None:
    with listening(ctx):
        message = say(ctx.run, "stop after this one")
        until(lambda: answer(ctx.run, message))
        assert [d.said for d in open_directives(ctx.run.directives)] == ["stop after this one"]
        heed(ctx)


def test_a_pause_reaches_the_node_where_it_looks_up(ctx: Context) -> None:
    with pytest.raises(Paused), listening(ctx):
        say(ctx.run, "pause")
        until(lambda: called(ctx))
        heed(ctx)
    assert waiting(ctx.run.inbox) == []


def test_a_pause_that_a_node_did_not_see_is_seen_by_the_next(ctx: Context) -> None:
    with listening(ctx):
        put(ctx.run.inbox, do="pause")
        until(lambda: called(ctx))
    with pytest.raises(Paused), listening(ctx):
        pytest.fail("it began")
    heed(ctx)


def test_a_pause_is_kept_while_the_node_asks_a_person(ctx: Context) -> None:
    with pytest.raises(GraphInterrupt), listening(ctx):
        put(ctx.run.inbox, do="pause")
        until(lambda: called(ctx))
        raise GraphInterrupt
    with pytest.raises(Paused), listening(ctx):
        pytest.fail("it was promised to pause")


def test_what_goes_wrong_while_somebody_is_heard_is_the_nodes_to_raise(ctx: Context) -> None:
    with pytest.raises(ValueError, match="Expecting"), listening(ctx):
        ctx.run.inbox.mkdir(exist_ok=True)
        (ctx.run.inbox / "1.json").write_text("torn")
        until(lambda: called(ctx))
        heed(ctx)


def test_without_a_thread_the_node_hears_by_itself(ctx: Context) -> None:
    message = say(ctx.run, "status")
    assert called(ctx)
    heed(ctx)
    assert answer(ctx.run, message)
    assert not called(ctx)
