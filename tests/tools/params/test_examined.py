"""Corpora by one who had not read rules and parser: bad configs refused, good ones passed, questions answered."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tools.params import world
from tuneloop.tools.params.answer import answer
from tuneloop.tools.params.catalog import Catalog
from tuneloop.tools.params.check import check_config
from tuneloop.tools.params.finding import Finding
from tuneloop.tools.params.kinds import Item
from tuneloop.tools.params.model_card import ModelCard
from tuneloop.tools.params.negation import Token, left_out

BAD, GOOD = (world.cases(f"examined_{name}.yaml") for name in ("bad", "good"))
QUESTIONS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "examined_questions.yaml").read_text("utf-8"))


def refused(case: Any, catalog: Catalog, card: ModelCard, place: Path) -> list[Finding]:
    model = card if case.profile == "run" else None
    found = check_config(case.text, catalog, model, case.device, profile=case.profile, here=place)
    return [f for f in found if f.level == "error"]


@pytest.mark.parametrize("case", BAD, ids=str)
def test_a_bad_config_is_refused_and_the_key_named(case: Any, catalog: Catalog, card: ModelCard, place: Path) -> None:
    assert case.key in {f.key for f in refused(case, catalog, card, place)}, case.text


@pytest.mark.parametrize("case", GOOD, ids=str)
def test_a_good_config_passes(case: Any, catalog: Catalog, card: ModelCard, place: Path) -> None:
    assert [str(f) for f in refused(case, catalog, card, place)] == [], case.text


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q["ask"][:60])
def test_question(question: dict[str, Any], catalog: Catalog) -> None:
    got = answer(question["ask"], catalog)
    assert got.kind == question.get("kind", got.kind), got.text
    assert got.names[:1] == ((question["first"],) if "first" in question else got.names[:1])
    assert set(question.get("has", ())) <= set(got.names)
    assert not set(question.get("lacks", ())) & set(got.names)
    assert question.get("given", {}).items() <= got.decisions.items()
    assert question.get("says", "").lower() in got.text.lower()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("A without B", "B"),
        ("A without B , C", "B"),
        ("A without B , C or D", "B C D"),
        ("A without B , C , or D , E", "B C D"),
        ("A without any B and D", "B D"),
        ("A or without", ""),
        ("A without word B", ""),
    ],
)
def test_what_a_question_leaves_out(text: str, left: str) -> None:
    tokens = [
        Token(w, Item(w) if w.isupper() else None, frozenset({w} if w == "without" else ())) for w in text.split()
    ]
    assert [tokens[place].text for place in sorted(left_out(tokens)) if tokens[place].item] == left.split()
