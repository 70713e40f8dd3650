"""Questions as people ask them; the file beside this one holds them with what an answer must show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneloop.tools.params.answer import answer
from tuneloop.tools.params.catalog import Catalog

QUESTIONS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "questions.yaml").read_text(encoding="utf-8"))


def test_there_are_enough() -> None:
    assert len(QUESTIONS) >= 120
    assert len({q["ask"] for q in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q["ask"][:60])
def test_question(question: dict[str, Any], catalog: Catalog) -> None:
    got = answer(question["ask"], catalog)
    assert got.kind == question.get("kind", got.kind), got.text
    if "first" in question:
        assert got.names[0] == question["first"]
    assert set(question.get("has", ())) <= set(got.names)
    assert not set(question.get("lacks", ())) & set(got.names)
    assert question.get("given", {}).items() <= got.decisions.items()
    assert question.get("says", "") in got.text
    assert_true(got.text, catalog)


def assert_true(text: str, catalog: Catalog) -> None:
    """Everything in an answer that is written as a name is a parameter, a template or a value."""
    body = text.partition("\n\n")[2]
    for name in re.findall(r"^- `([a-z0-9_]+)`|^### `([a-z0-9_]+)`", body, re.MULTILINE):
        assert (name[0] or name[1]) in catalog.parameters


@settings(max_examples=150)
@given(text=st.text(max_size=300))
def test_any_text_is_answered(text: str, catalog: Catalog) -> None:
    got = answer(text, catalog)
    assert set(got.names) <= set(catalog.parameters)
    assert got == answer(text, catalog)
