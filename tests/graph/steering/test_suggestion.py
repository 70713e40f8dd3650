"""Which command is suggested for a text that is none."""

from __future__ import annotations

import pytest

from tuneloop.graph.steering.message_handler import suggest


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("statsu", "status"),
        ("/fnish", "finish"),
        ("uses lora_rank=32", "use lora_rank=32"),
        ("stop after this one", "finish"),
        ("how is it going?", "status"),
        ("why did the last one fail?", "why"),
        ("what is the best model so far", "best"),
        ("how long will this take", "time"),
        ("status please", "status"),
    ],
)
def test_nearest_command_is_suggested(text: str, command: str) -> None:
    assert suggest(text)[0] == command


@pytest.mark.parametrize("text", ["", "zzz qqq", "der Rang soll 32 sein", "你好"])
def test_nothing_is_suggested_for_text_that_is_like_no_command(text: str) -> None:
    assert suggest(text)[0] == ""
