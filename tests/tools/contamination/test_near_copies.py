"""Near copies share a group; two texts of one template do not."""

import random

import pytest

from tuneloop.tools.contamination import near_copies
from tuneloop.tools.contamination.near_copies import groups_of_near_copies, text_traits

WORDS = [f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(600)]
STORY = (
    "{name} has {a} {thing}. {name} buys {b} more {thing} at the market. Then {name} gives {c} {thing} to a friend. "
    "How many {thing} does {name} have now?"
)


def story(**changes: object) -> str:
    return STORY.format(**{"name": "Tom", "thing": "apples", "a": 31, "b": 14, "c": 9} | changes)


def test_formatting_names_and_one_word_hide_no_copy() -> None:
    others = [story(a=40 + i, b=i) for i in range(1, 20)]
    copies = [story(), story().upper(), story(a="thirty-one"), story(name="Anna"), story().replace("at the", "in a")]
    assert groups_of_near_copies([*copies, *others]) == [0] * 5 + list(range(5, 24))


def test_other_numbers_make_other_texts() -> None:
    texts = [story(), story(a=32), story(a=14, b=31), story(thing="books"), ""]
    assert groups_of_near_copies(texts) == [0, 1, 2, 3, 4]


def test_questions_of_facts() -> None:
    countries = ("France", "Spain", "Peru", "Kenya", "India", "Japan", "Chile", "Cuba", "Mali")
    texts = [f"What is the capital of {c}?" for c in countries]
    assert groups_of_near_copies([*texts, "what is the capital of  JAPAN"]) == [*range(9), 5]


def test_a_long_text_with_some_words_changed() -> None:
    rng = random.Random(5)
    texts = [" ".join(rng.choices(WORDS, k=80)) for _ in range(300)]
    changed = texts[7].split()
    changed[10], changed[50] = "other", "words"
    half = texts[8].split()[:40]
    assert groups_of_near_copies([*texts, " ".join(changed), " ".join(half)]) == [*range(300), 7, 301]


def test_groups_do_not_depend_on_the_process() -> None:
    rng = random.Random(6)
    texts = [story(a=rng.randint(1, 4), b=rng.randint(1, 4), name=rng.choice(("Tom", "Mia"))) for _ in range(60)]
    found = groups_of_near_copies(texts)
    keys: dict[str, int] = {}
    for text, group in zip(texts, found, strict=True):
        assert keys.setdefault(text.replace("Mia", "Tom"), group) == group
    assert len(set(found)) == len(keys)
    assert groups_of_near_copies([]) == []


def test_long_texts_are_read_in_parts_and_to_their_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(story(a=i, b=i + 1) for i in range(40))
    whole, other = text_traits(text), text_traits(text.replace("40 more", "41 more"))
    monkeypatch.setattr(near_copies, "PART", 100)
    parts = text_traits(text)
    assert (parts.whole, parts.words.tolist(), parts.numbers) == (whole.whole, whole.words.tolist(), whole.numbers)
    assert text_traits(text.replace("40 more", "41 more")).whole == other.whole != whole.whole
    assert text_traits("x" * 1000).whole == text_traits("X" * 1000).whole
