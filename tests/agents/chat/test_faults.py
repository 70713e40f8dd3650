"""Whatever a provider does wrong, an agent gets an answer, and it is said whose; keys are told to nobody."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agents.chat.conftest import ANSWER, CANARY, GOOD, Sit, Table
from tests.chat_server import Call, Cut, Garbage, Hang, Refuse, Reply
from tuneloop.core.errors import InfrastructureError, RecipeError
from tuneloop.core.experiment import Critique

FAULTS = {
    "429": Refuse(429, "slow down", headers={"Retry-After": "0.02"}),
    "500": Refuse(500),
    "503 html": Refuse(503, "<html>"),
    "cut": Cut(GOOD),
    "cut at once": Cut(GOOD, 0),
    "garbage": Garbage(),
    "half an answer": Garbage(b'{"id": "x", "choices": []}'),
    "hang": Hang(),
    "silence": Hang(GOOD, 2),
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_a_fault_is_tried_again(sit: Sit, fault: Any, stream: bool) -> None:
    slow = isinstance(fault, Hang)
    table = sit(fault, GOOD, CHAT_STREAM=stream, TUNELOOP_CHAT_TIMEOUT=1 if slow else 60)
    assert table.ask() == Critique.model_validate(ANSWER)
    outcomes = [call.outcome for call in table.calls]
    assert outcomes[:1] + outcomes[-1:] == ["failed", "answered"]
    assert len(outcomes) == 2 or slow, "a busy machine is slow, too"
    assert len(table.told("model_called")) == len(outcomes)
    assert table.told("planner_fell_back") == []


def test_retry_after_is_honoured(sit: Sit) -> None:
    table = sit(
        Refuse(429, headers={"Retry-After": "0.3"}), Refuse(503, headers={"retry-after-ms": "70"}), Refuse(500), GOOD
    )
    table.ask()
    assert [e.wait for e in table.told("model_called")[:-1]] == [0.3, 0.07, 0.04]


@pytest.mark.parametrize("message", ["insufficient_quota", "slow"])
def test_long_retry_after_or_no_credit_uses_next_model(sit: Sit, message: str) -> None:
    busy = Refuse(429, message, headers={"Retry-After": "3600"})
    table = sit(
        lambda asked: busy if asked["model"] == "m" else GOOD, TUNELOOP_CHAT_FALLBACKS="second,third"
    )  # fmt: skip
    table.ask()
    assert [asked["model"] for asked in table.chat.seen] == ["m", "second"]
    assert [(e.left, e.to) for e in table.told("planner_fell_back")] == [("m", "second")]
    assert table.ended.by == "second"


def test_a_model_that_was_down_is_asked_last_for_a_while(sit: Sit) -> None:
    table = sit(lambda asked: Refuse(500) if asked["model"] == "m" else GOOD, TUNELOOP_CHAT_FALLBACKS="second")
    table.ask()
    table.transcript().unlink()
    table.chat.seen.clear()
    table.ask()
    assert [asked["model"] for asked in table.chat.seen] == ["second"]
    assert table.told("planner_fell_back")[-1].reason == "it failed a moment ago"


def test_a_model_that_fails_in_the_middle_is_followed_by_another(sit: Sit) -> None:
    def say(asked: dict[str, Any]) -> Any:
        if asked["model"] == "second":
            return GOOD
        return Refuse(500) if "letters" in json.dumps(asked["messages"]) else Reply("", (Call("data_look", {}),))

    table = sit(say, TUNELOOP_CHAT_FALLBACKS="second")
    table.ask()
    assert "letters" in json.dumps(table.chat.seen[-1]["messages"]), "the second sees what the first found"
    assert len(table.tools.used) == 1


def test_the_last_of_the_chain_is_the_offline_policy(sit: Sit) -> None:
    table = sit(Refuse(500), TUNELOOP_CHAT_FALLBACKS="second")
    found = table.ask()
    assert isinstance(found, Critique)
    assert (table.ended.by, table.ended.answer) == ("offline", found.model_dump())
    fell = table.told("planner_fell_back")
    assert [(e.left, e.to) for e in fell] == [("m", "second"), ("second", "offline")]
    assert "500" in fell[0].reason


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_wrong_key_or_name_is_the_users(sit: Sit, status: int) -> None:
    table = sit(Refuse(status, "no such thing"), TUNELOOP_CHAT_FALLBACKS="second")
    with pytest.raises(InfrastructureError, match=r"refuses m: .*; correct its name \(CHAT_MODEL\) or its key") as e:
        table.ask()
    assert len(table.chat.seen) == 1
    assert "\n" not in str(e.value)


def test_no_provider_at_all(sit: Sit) -> None:
    table = sit(OPENAI_API_BASE="http://127.0.0.1:9/v1")
    assert isinstance(table.ask(), Critique)
    assert "Connection" in table.told("planner_fell_back")[0].reason


def every_word(table: Table) -> str:
    files = "".join(path.read_text() for path in table.folder.rglob("*") if path.is_file())
    return files + "".join(event.model_dump_json() for event in table.events)


@pytest.mark.parametrize("stream", [True, False])
def test_key_goes_to_the_provider_only(
    sit: Sit, stream: bool, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A provider that repeats the key in errors, words, arguments and names of tools."""
    leaks = {**ANSWER, "explanation": f"the key is {CANARY}", "lesson": "sk-abcdefghijklmnopqrstuvwxyz"}
    table = sit(
        Refuse(500, f"bad key {CANARY}"),
        Reply(f"{CANARY} " * 50, (Call("data_look", {"where": CANARY}), Call(CANARY, {}))),
        Reply("", (Call("Critique", leaks),)),
        CHAT_STREAM=stream,
    )
    caplog.set_level("DEBUG")
    found = table.ask()
    assert found.explanation == "the key is [secret]"
    assert table.tools.used == [("data_look", {"where": "[secret]"})]
    everywhere = every_word(table) + found.model_dump_json() + json.dumps(table.chat.seen)
    assert "[secret]" in everywhere
    assert CANARY not in everywhere
    assert "sk-abcdef" not in everywhere
    assert table.chat.keys == [f"Bearer {CANARY}"] * 3
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("tuneloop")]
    assert CANARY not in "".join(ours) + "".join(capfd.readouterr())


def test_the_key_is_in_no_error(sit: Sit) -> None:
    table = sit(Refuse(401, f"Incorrect API key provided: {CANARY}"))
    with pytest.raises(InfrastructureError) as wrong:
        table.ask()
    table = sit(Refuse(400, f"content_policy {CANARY}"))
    with pytest.raises(RecipeError) as unwanted:
        table.ask()
    assert CANARY not in str(wrong.value) + str(unwanted.value) + repr(table.settings)
