"""An answer is found with tools, in every dialect, within limits, and written down."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agents.chat.conftest import ANSWER, CANARY, GOOD, Sit, Table
from tests.chat_server import Call, Refuse, Reply
from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Critique, DataScript

LOOK = Reply("Let me look.", (Call("data_look", {"where": "here"}),))


def test_an_answer_after_a_tool(sit: Sit) -> None:
    table = sit(LOOK, GOOD)
    found = table.ask()
    assert found == Critique.model_validate(ANSWER)
    assert table.tools.used == [("data_look", {"where": "here"})]
    asked = table.chat.seen[0]
    assert [m["role"] for m in asked["messages"]] == ["system", "user"]
    assert asked["messages"][0]["content"].startswith("You are the critic.\n\nUse your tools")
    assert {t["function"]["name"] for t in asked["tools"]} == {
        "data_look", "data_count", "data_fail", "read_more", "Critique",
    }  # fmt: skip
    assert "tool_choice" not in asked
    assert '"letters"' in table.chat.seen[1]["messages"][-1]["content"]
    assert table.chat.keys == [f"Bearer {CANARY}"] * 2
    assert (table.ended.by, table.ended.answer) == ("m", found.model_dump())


def test_what_is_booked_and_told(sit: Sit) -> None:
    table = sit(LOOK, GOOD, TUNELOOP_API_PRICES={"m": (1.0, 10.0)})
    table.ask()
    assert [call.tokens.model_dump() for call in table.book.over][1] == {
        "into": 100, "out": 20, "cached": 40, "estimated": False,
    }  # fmt: skip
    assert table.book.over[1].cost == pytest.approx((100 * 1 + 20 * 10) / 1e6)
    assert [agent for agent, _, _ in table.book.begun] == ["critic", "critic"]
    assert [e.tokens_out for e in table.told("model_called")] == [5, 20]
    assert [(e.tool, e.refused) for e in table.told("tool_used")] == [("data_look", False)]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("powers", "dialect"),
    [
        ({}, "tools"),
        ({"tools": "ignored"}, "schema"),
        ({"tools": "refused"}, "schema"),
        ({"tools": "ignored", "response_format": "refused"}, "text"),
        ({"tools": "refused", "response_format": "ignored"}, "schema"),
        ({"tools": "refused", "response_format": "refused"}, "text"),
    ],
)
def test_every_dialect(sit: Sit, powers: Any, dialect: str, stream: bool) -> None:
    def say(asked: dict[str, Any]) -> Reply:
        return GOOD if "letters" in json.dumps(asked["messages"]) else LOOK

    table = sit(say, powers=powers, CHAT_STREAM=stream)
    assert table.ask() == Critique.model_validate(ANSWER)
    assert (table.calls[-1].dialect, len(table.tools.used)) == (dialect, 1)
    assert all(bool(asked.get("stream")) == stream for asked in table.chat.seen)
    before = len(table.chat.seen)
    table.transcript().unlink()
    table.ask()
    assert len(table.chat.seen) == before + 2, "the dialect is remembered"


def test_parameters_that_a_model_does_not_take_are_left_out(sit: Sit) -> None:
    table = sit(powers={"temperature": "refused", "stream_options": "refused"}, CHAT_TEMPERATURE=1)
    table.ask()
    assert ("temperature" in table.chat.seen[0], "temperature" in table.chat.seen[-1]) == (True, False)
    assert table.calls[-1].tokens.estimated is False or "stream_options" not in table.chat.seen[-1]


@pytest.mark.parametrize(
    "bad",
    [
        Reply("I think the form was wrong."),
        Reply(""),
        Reply("", refusal="I can't help with that."),
        Reply("", (Call("Critique", {"explanation": "no lesson"}),)),
        Reply("", (Call("Critique", '{"explanation": "cut o'),)),
        Reply("", (Call("Critique", {**ANSWER, "verdict": "accepted"}),)),
        Reply("", finish="content_filter"),
    ],
    ids=["words", "empty", "refusal", "missing", "not json", "too much", "filtered"],
)
def test_one_repair(sit: Sit, bad: Reply) -> None:
    known = Reply("", (Call("data_look", {}),))
    assert sit(known, bad, GOOD).ask() == Critique.model_validate(ANSWER)
    table = sit(known, bad, bad, GOOD)
    table.chat.seen.clear()
    with pytest.raises(RecipeError, match="critic gave no usable answer, asked twice") as e:
        table.ask()
    assert (e.value.culprit, len(table.chat.seen), table.ended.answer) == ("planner", 3, None)


def test_the_repair_says_what_is_wrong(sit: Sit) -> None:
    table = sit(Reply("", (Call("Critique", {"explanation": "no lesson"}),)), GOOD)
    table.ask()
    assert "lesson: Field required" in table.chat.seen[-1]["messages"][-1]["content"]


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_that_was_cut_off_is_not_completed(sit: Sit, stream: bool) -> None:
    half = Reply("", (Call("DataScript", '{"code": "import json, s'),), finish="length")
    table = sit(half, Reply("", (Call("DataScript", {"code": "import json"}),)), CHAT_STREAM=stream)
    assert table.ask(want=DataScript).code == "import json"
    assert "arguments were no JSON object" in table.chat.seen[-1]["messages"][-1]["content"]


@pytest.mark.parametrize("name", ["tool", "self", "config"])
def test_a_call_with_a_name_of_our_own_is_refused_and_nothing_breaks(sit: Sit, name: str) -> None:
    table = sit(Reply("", (Call("data_look", {name: "x"}), Call("read_more", {name: 1}))), GOOD)
    table.ask()
    said = [m["content"] for m in table.chat.seen[-1]["messages"] if m["role"] == "tool"]
    assert f"no tool knows {name}" in said[0] and "there is no result" in said[1]


def test_json_in_words_is_an_answer(sit: Sit) -> None:
    table = sit(Reply(f"<think>{{hm}}</think>Here it is:\n```json\n{json.dumps(ANSWER)}\n```"))
    assert table.ask() == Critique.model_validate(ANSWER)
    assert len(table.chat.seen) == 1


def test_a_tool_that_is_none_and_one_that_refuses(sit: Sit) -> None:
    table = sit(Reply("", (Call("data_burn", {}), Call("data_fail", {"where": "x"}))), GOOD)
    table.ask()
    told = [m["content"] for m in table.chat.seen[-1]["messages"][-2:]]
    assert "data_burn is not a valid tool" in told[0]
    assert told[1] == "Error: data_fail has nothing for {'where': 'x'}; right is data_look"


def test_endless_calls_end(sit: Sit) -> None:
    steps = iter(range(10**6))
    table = sit(lambda _: Reply("", (Call("data_look", {"where": str(next(steps))}),)), TUNELOOP_CHAT_STEPS=6)
    with pytest.raises(RecipeError, match=r"no answer within 6 calls of its model \(TUNELOOP_CHAT_STEPS\)"):
        table.ask()
    assert len(table.chat.seen) == 6
    assert [t["function"]["name"] for t in table.chat.seen[-1]["tools"]] == ["Critique"]
    assert "last step" in table.chat.seen[-1]["messages"][-1]["content"]


def test_repeated_calls_are_noticed(sit: Sit) -> None:
    table = sit(lambda asked: LOOK if len(asked["tools"]) > 1 else GOOD)
    table.ask()
    assert len(table.tools.used) == 4
    results = [m["content"] for m in table.chat.seen[-1]["messages"] if m["role"] == "tool"]
    assert ["made this call before" in text for text in results] == [False, True, True, True]


def test_repeating_model_is_abandoned(sit: Sit) -> None:
    table = sit(LOOK)
    with pytest.raises(RecipeError, match="no answer when nothing else was left to do"):
        table.ask()
    assert len(table.chat.seen) == 4 + 3


def test_a_call_whose_result_changes_is_no_repetition(sit: Sit) -> None:
    table = sit(*[Reply("", (Call("data_count", {}),))] * 6, GOOD)
    table.ask()
    assert len(table.tools.used) == 6
    assert all(len(asked["tools"]) > 1 for asked in table.chat.seen)


def test_long_results_come_in_pages(sit: Sit) -> None:
    table = sit(LOOK, Reply("", (Call("read_more", {"result": "r1", "page": 3}),)), GOOD)
    table.tools.looks = 7_000
    table.ask()
    first, third = (m["content"] for m in table.chat.seen[-1]["messages"] if m["role"] == "tool")
    assert first.endswith('[result r1, page 1 of 3; go on with read_more(result="r1", page=2)]')
    assert third.endswith("[result r1, page 3 of 3]")
    assert len(first) < 3200
    assert len(table.uses[0].result["letters"]) == 7_000


def test_tokens_end(sit: Sit) -> None:
    greedy = Reply("", (Call("data_count", {}),), usage=(50_000, 10, 0))
    table = sit(greedy, TUNELOOP_CHAT_TOKENS=120_000)
    with pytest.raises(RecipeError, match=r"within 120000 tokens \(TUNELOOP_CHAT_TOKENS\)"):
        table.ask()
    assert [len(asked["tools"]) for asked in table.chat.seen] == [5, 5, 1]


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_without_end(sit: Sit, stream: bool) -> None:
    endless = Reply("blah " * 100_000, usage=(10, 100_000, 0))
    table = sit(endless, CHAT_STREAM=stream, TUNELOOP_CHAT_TOKENS=20_000)
    with pytest.raises(RecipeError, match="within 20000 tokens"):
        table.ask()
    assert len(table.chat.seen) == 1


def test_the_request_may_be_too_long_or_unwanted(sit: Sit) -> None:
    for message, said in (
        ("This model's maximum context length is 8192 tokens", "too long for the model"),
        ("Blocked by our content_policy", "refused by the provider"),
    ):
        with pytest.raises(RecipeError, match=said):
            sit(Refuse(400, message)).ask()


def test_agents_have_models_of_their_own(sit: Sit) -> None:
    table = sit(TUNELOOP_CHAT_MODELS={"critic": "openai:small"})
    table.ask()
    assert [asked["model"] for asked in table.chat.seen] == ["small"]


def every_word(table: Table) -> str:
    files = "".join(path.read_text() for path in table.folder.rglob("*") if path.is_file())
    return files + "".join(event.model_dump_json() for event in table.events)
