"""Search: what needed parameters are among the ten, what comes first, and what the synonym table may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tuneloop.tools.config.aliases import ALIASES
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.search import MOST_HITS, search, synonyms

HERE = Path(__file__).parent
QUESTIONS, HELD_OUT = (
    yaml.safe_load((HERE / name).read_text(encoding="utf-8")) for name in ("questions.yaml", "held_out_questions.yaml")
)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q["ask"][:60])
def test_question(question: dict[str, Any], catalog: Catalog) -> None:
    found = search(question["ask"], catalog)
    assert set(question.get("needs", ())) <= set(found)
    assert found[0] == question.get("first", found[0])


def test_nine_of_ten_held_out_questions_find_all_that_they_need(catalog: Catalog) -> None:
    missed = [q["ask"] for q in HELD_OUT if not set(q["needs"]) <= set(search(q["ask"], catalog))]
    assert len(missed) <= 0.1 * len(HELD_OUT), missed


def test_at_most_ten_and_each_once(catalog: Catalog) -> None:
    for question in (*QUESTIONS, *HELD_OUT):
        found = search(question["ask"], catalog)
        assert len(found) == len(set(found)) <= MOST_HITS == 10


def test_every_parameter_is_found_by_its_name(catalog: Catalog) -> None:
    for name in catalog.parameters:
        assert search(f"what does {name} do?", catalog)[0] == name
        assert search(name.upper().replace("_", " "), catalog)[0] == name


def test_exact_names_come_first_in_the_order_of_the_question(catalog: Catalog) -> None:
    found = search("does weight decay matter with lora_dropout when gradients explode?", catalog)
    assert found[:2] == ["weight_decay", "lora_dropout"]
    assert len(found) > 2


@pytest.mark.parametrize("name", sorted(ALIASES))
def test_every_alias_is_understood(name: str, catalog: Catalog) -> None:
    wanted = ALIASES[name].parameter
    if wanted in catalog.parameters:
        assert wanted in search(name, catalog)


def test_nothing_is_added_to_a_name(catalog: Catalog) -> None:
    assert search("What is the default of lora rank?", catalog) == ["lora_rank"]


def test_ordinary_words_are_not_corrected(catalog: Catalog) -> None:
    assert search("defualt dropuot", catalog) == []


def test_accents_and_width_do_not_matter(catalog: Catalog) -> None:
    assert search("ｌｅａｒｎｉｎｇ＿ｒａｔｅ", catalog)[:1] == ["learning_rate"]
    assert search("lora_ránk", catalog)[:1] == ["lora_rank"]


def test_the_table_is_small_and_names_parameters(catalog: Catalog) -> None:
    text = (HERE.parents[2] / "tools/config/synonyms.yaml").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert yaml.safe_load(text) == synonyms()
    assert {name for names in synonyms().values() for name in names.split()} <= set(catalog.parameters)
