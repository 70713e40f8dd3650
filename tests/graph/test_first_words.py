"""A chat that begins without a run: a spec is understood or asked for, nothing crashes."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import END

from tuneloop.core.directive_log import read_conversation
from tuneloop.core.errors import SetupError
from tuneloop.core.run import RunSpec
from tuneloop.core.settings import load_settings
from tuneloop.graph.first_words import first_words
from tuneloop.graph.nodes.steer import steer
from tuneloop.graph.state import State
from tuneloop.tools.runs.manifest import read_spec


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("fine-tune tiny on wordproblems, 2 experiments", {"loop_n": 2}),
        ("Please tune tiny on wordproblems for two hours.", {"timeout": 7200}),
        ("tiny, wordproblems: three experiments, 90 minutes", {"loop_n": 3, "timeout": 5400}),
        ("tiny on wordproblems within 1.5 h", {"timeout": 5400}),
        ('{"benchmark": "wordproblems", "base_model": "tiny", "seed": 4}', {"seed": 4}),
        ('run {"spec": {"benchmark": "wordproblems", "base_model": "tiny"}}', {}),
        ("fine-tune org/pythia-70m on wordproblems, 2 experiments", {"base_model": "org/pythia-70m", "loop_n": 2}),
        ("tune org/name on wordproblems", {"base_model": "org/name"}),
    ],
)
def test_what_is_said_is_a_spec(text: str, spec: dict[str, Any]) -> None:
    assert first_words(text) == RunSpec.model_validate({"benchmark": "wordproblems", "base_model": "tiny", **spec})


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("hello", "Which benchmark"),
        ("make it better at wordproblems", "Which model"),
        ('{"benchmark": "wordproblems"', "no JSON"),
        ('{"benchmark": "wordproblems", "base_model": "tiny", "loop_n": 0}', "loop_n: Input should be greater than 0"),
        ('{"bench": 1}', "Right is, e.g."),
        ('{"spec": 7}', "Right is, e.g."),
    ],
)
def test_what_is_missing_is_asked_for(text: str, asks: str) -> None:
    assert asks in str(first_words(text))


def said(text: str, **more: Any) -> State:
    return State.model_validate({"messages": [HumanMessage(text, id="m1")], **more})


def test_what_is_missing_is_said_in_the_next_message() -> None:
    words = [HumanMessage(text, id=text) for text in ("hello", "make wordproblems better", "tiny")]
    opened = steer(State(messages=list(words), stage=END), {"configurable": {"thread_id": "t2"}})
    assert (opened["run_id"], read_spec(load_settings().home.run("t2")).base_model) == ("t2", "tiny")


def test_a_chat_opens_a_run_or_asks_back() -> None:
    config: Any = {"configurable": {"thread_id": "t1"}}
    asked = steer(said("hello"), config)
    assert (asked["stage"], "Which benchmark" in asked["messages"][0].text) == (END, True)
    wrong = steer(said('{"benchmark": "nothing", "base_model": "tiny"}'), config)
    assert (wrong["stage"], "nothing" in wrong["messages"][0].text) == (END, True)
    home = load_settings().home
    assert not home.runs.exists()
    opened = steer(said("tiny on wordproblems, 2 experiments", stage=END), config)
    assert (opened["run_id"], opened["stage"]) == ("t1", "prepare")
    assert [m.text for m in opened["messages"]] == ["tiny is tuned on wordproblems, 2 experiments."]
    assert read_spec(home.run("t1")).loop_n == 2
    assert len(read_conversation(home.run("t1").conversation)) == 2
    with pytest.raises(SetupError, match="nothing to do"):
        steer(State(), config)
