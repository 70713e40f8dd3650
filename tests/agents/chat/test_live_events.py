"""What a model says is shown while it says it; a key that comes in pieces is not."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.agents.chat.conftest import CANARY
from tuneloop.agents.chat import live_events
from tuneloop.agents.chat.live_events import LiveEvents
from tuneloop.core.redaction import SecretRedactor


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> tuple[LiveEvents, list[Any]]:
    monkeypatch.setattr(live_events, "EVERY", 0)
    told: list[Any] = []
    return LiveEvents("critic", 1, told.append, SecretRedactor([CANARY])), told


def test_words_are_shown_as_they_come(shown: tuple[LiveEvents, list[Any]]) -> None:
    view, told = shown
    show = view.listener("m")
    for i in range(300):
        show(f"word{i} ")
    assert any("word10 word11 " in event.text for event in told)
    assert (told[-1].agent, told[-1].model, told[-1].letters) == (
        "critic",
        "m",
        sum(len(f"word{i} ") for i in range(300)),
    )
    assert max(len(event.text) for event in told) <= live_events.SHOWN


def test_no_part_of_a_key_is_shown(shown: tuple[LiveEvents, list[Any]]) -> None:
    view, told = shown
    show = view.listener("m")
    for letter in f"{'a ' * 200}{CANARY}{' b' * 400}":
        show(letter)
    everything = "".join(event.text for event in told)
    assert "[secret]" in everything
    assert CANARY[:7] not in everything


def test_one_event_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(time, "monotonic", iter([x / 10 for x in range(10**6)]).__next__)
    show = LiveEvents("critic", 1, told.append, SecretRedactor([])).listener("m")
    for _ in range(100):
        show("x" * 10)
    assert 2 <= len(told) <= 20
