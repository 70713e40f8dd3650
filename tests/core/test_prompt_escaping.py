from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.core.prompt_escaping import escape_role_markers, fence, one_line, quote_line, shorten_middle, table_cell

PIECES = st.sampled_from(
    ["```", "`", "|", "\n", "\r\n", "\u2028", '"', "\\", "<|im_start|>", "</s>", "[INST]", "<", "|>", "a"]
)
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=20).map("".join)


@given(TEXTS)
def test_nothing_breaks_out(text: str) -> None:
    mark = re.match("`+", fence("", text))
    assert mark and mark[0] not in text
    assert len(quote_line(text, 99).splitlines()) == 1
    assert json.loads(quote_line(text, 10_000)) == escape_role_markers(text)
    assert len(one_line(text, 99).splitlines()) <= 1
    assert "|" not in table_cell(text, 99)
    assert escape_role_markers(escape_role_markers(text)) == escape_role_markers(text)


@pytest.mark.parametrize(
    "mark",
    ["<|im_start|>", "<|eot_id|>", "<｜Assistant｜>", "[INST]", "[/INST]", "<<SYS>>", "<start_of_turn>", "</s>", "<s>", "</think>",
     "<tool_call>", "[TOOL_CALLS]", "<system>"],
)  # fmt: skip
def test_marks_of_chat_templates_are_no_marks_any_more(mark: str) -> None:
    assert mark not in escape_role_markers(f"a{mark}b")
    assert escape_role_markers(f"a{mark}b").replace(" ", "") == f"a{mark}b"


def test_ordinary_text_stays() -> None:
    for text in ("if a < b and c[0] > 1: print('<p>')", "x <= y | z", "[INSTALL] <strong>"):
        assert escape_role_markers(text) == text


def test_the_middle_goes() -> None:
    text = "".join(map(str, range(1000)))
    short = shorten_middle(text, 90)
    assert short.startswith(text[:30])
    assert short.endswith(text[-60:])
    assert len(short) < 120
    assert shorten_middle("abc", 3) == "abc"
