"""A thread that begins with a message: `run …` creates the run; anything else is answered, and nothing crashes."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import END

from tuneloop.core.directive_log import read_conversation
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.event_log import iter_events
from tuneloop.core.files import write_json
from tuneloop.core.settings import load_settings
from tuneloop.graph.nodes.steer import steer
from tuneloop.graph.state import State
from tuneloop.tools.runs.manifest import read_spec

CONFIG: Any = {"configurable": {"thread_id": "t1"}}


def message(text: str, **more: Any) -> State:
    return State.model_validate({"messages": [HumanMessage(text, id="m1")], **more})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hello", "run benchmark="),
        ("status", "no run yet"),
        ("run benchmark=nothing base_model=tiny", "nothing"),
        ("run benchmark=wordproblems base_model=tiny loop_n=0", "--loop-n"),
        ("run benchmark=wordproblems bench=1", "bench"),
        ("run tiny", "right is `run"),
    ],
)
def test_text_that_starts_no_run_is_answered(text: str, reason: str) -> None:
    reply = steer(message(text), CONFIG, load_settings())
    assert (reply["stage"], reason in reply["messages"][0].text) == (END, True)
    assert not load_settings().home.runs.exists()


def test_run_command_creates_a_run() -> None:
    reply = steer(
        message("run benchmark=wordproblems base_model=tiny loop_n=2 timeout=90m", stage=END), CONFIG, load_settings()
    )
    assert (reply["run_id"], reply["stage"]) == ("t1", "prepare")
    run = load_settings().home.run("t1")
    assert (read_spec(run).loop_n, read_spec(run).timeout) == (2, 5400)
    assert len(read_conversation(run.conversation)) == 2
    with pytest.raises(InvalidRequestError, match="nothing to do"):
        steer(State(), CONFIG, load_settings())


def test_talk_with_a_finished_run_does_not_start_it() -> None:
    steer(message("run benchmark=wordproblems base_model=tiny", stage=END), CONFIG, load_settings())
    run = load_settings().home.run("t1")
    begun = [event.kind for event in iter_events(run.events)].count("run_started")
    write_json(run.report_json, {})
    told = State.model_validate({"messages": [HumanMessage("directives", id="m2")], "run_id": "t1", "stage": END})
    steer(told, CONFIG, load_settings())
    kinds = [event.kind for event in iter_events(run.events)]
    assert (kinds.count("run_started"), kinds[-1]) == (begun, "message_answered")
