"""The index gives up no pair that holds as long as a sentence of the item is there: whatever was cut, moved, repeated or short."""

import random
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneloop.tools.contamination import shingles
from tuneloop.tools.contamination.guard import Guard
from tuneloop.tools.contamination.letters import merged
from tuneloop.tools.contamination.matching import holds
from tuneloop.tools.contamination.probes import SIZE, KnownItem, Probe
from tuneloop.tools.contamination.shingles import ShingleIndex

LETTERS = "abcdefghjknpqrtuvwxy0123456789"


def sentence(rng: random.Random, size: int) -> str:
    return "".join(rng.choices(LETTERS, k=size))


def probe(item: int, parts: list[str], *, whole: bool = False) -> Probe:
    return Probe(item, "".join(parts), tuple(accumulate(map(len, parts))), whole)


def drawn(rng: random.Random) -> list[str]:
    """The sentences of an item: long ones, short ones, some said twice, some that other items say."""
    common = [sentence(random.Random(i), 30) for i in range(3)]
    parts = [sentence(rng, rng.choice([3, 6, 12, 40])) for _ in range(rng.randint(1, 9))]
    parts += rng.sample(common, rng.randint(0, 3)) + rng.choices(parts, k=rng.randint(0, 3))
    rng.shuffle(parts)
    return parts


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.booleans())
def test_what_holds_is_a_candidate(rng: random.Random, whole: bool) -> None:
    own = [drawn(rng) for _ in range(20)]
    probes = [probe(i, parts, whole=whole) for i, parts in enumerate(own)]
    texts = []
    for parts in own:
        cut = rng.randrange(len(parts))
        left = parts[:cut] + parts[cut + rng.randint(0, 3) :]
        texts.append(merged("-".join([sentence(rng, 20), *rng.sample(left, len(left)), sentence(rng, 20)])))
    found = set(ShingleIndex(probes).candidates(texts))
    for t, text in enumerate(texts):
        for p in probes:
            there = any(len(part) >= SIZE and merged(part) in text for part in own[p.item])
            assert (t, p.item) in found or not there or not holds(text, text, p)


def numbers(count: int) -> list[str]:
    return [str(57224 + 1013 * i) for i in range(count)]


@pytest.mark.parametrize(
    ("item", "row"),
    [
        (
            {"question": "Which is prime?"} | dict(zip("ABCDEFGHIJ", numbers(10), strict=True)),
            "\n".join(["Which is prime?", *(f"({a}) {n}" for a, n in zip("ABCDEFGHIJ", numbers(10), strict=True))]),
        ),
        (
            {"prompt": "Which of these codes are the prime numbers here?\n" + "\n".join(numbers(40))},
            "Which of these codes are the prime numbers here?\n" + "\n".join(f"x) {n}" for n in reversed(numbers(40))),
        ),
        (
            {"prompt": "The cat sat down. " * 5 + "A quick brown fox jumps over this very lazy old dog."},
            "Intro text here. " + "The cat sat down. " * 5,
        ),
    ],
    ids=["short options, labelled", "short lines in another order", "repeated sentences"],
)
def test_the_one_long_sentence_is_enough_to_look(item: dict[str, str], row: str) -> None:
    assert Guard([KnownItem("b", "test", "1", item, "A")]).overlaps(row) == "test"


@pytest.mark.parametrize("count", [99, 150])
def test_more_items_of_a_template_do_not_hide_one(count: int) -> None:
    rng = random.Random(5)
    said = "Assume that g is 9.8 m/s2 and neglect the resistance of air in all of these computations."
    own = [[sentence(rng, size) for size in (10, 8, 45, 42)] for _ in range(count)]
    items = [
        KnownItem("b", "test", str(i), {"prompt": f"{said} {a} {b}. {c} {d}."}) for i, (a, b, c, d) in enumerate(own)
    ]
    first, second, *_ = own[7]
    assert Guard(items).overlaps(f"{said} {first} {second}.") == "test"


def test_short_sentences_are_looked_for_together() -> None:
    rng = random.Random(1)
    every = [[sentence(rng, rng.randint(2, 7)) for _ in range(12)] for _ in range(50)]
    index = ShingleIndex([probe(i, parts) for i, parts in enumerate(every)])
    rest = [merged("".join(parts[:5] + parts[8:])) for parts in every]
    assert list(index.candidates(rest)) == [(i, i) for i in range(50)]


def test_what_all_items_say_is_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shingles, "COMMON", 4)
    rng = random.Random(2)
    said = sentence(rng, 60)
    probes = [probe(i, [said, sentence(rng, 20)]) for i in range(20)]
    index = ShingleIndex(probes)
    assert not list(index.candidates([merged(said)]))
    assert list(index.candidates([probes[7].text])) == [(0, 7)]


@pytest.mark.parametrize("lot", [1, 100, 1 << 20])
def test_lots_change_nothing(monkeypatch: pytest.MonkeyPatch, lot: int) -> None:
    rng = random.Random(3)
    probes = [probe(i, [sentence(rng, rng.randint(3, 30)) for _ in range(4)]) for i in range(40)]
    monkeypatch.setattr(shingles, "LOT", lot)
    found = list(ShingleIndex(probes).candidates(["", *(p.text for p in probes)]))
    assert found == [(i + 1, i) for i in range(40)]


def test_without_probes_there_are_no_candidates() -> None:
    assert not list(ShingleIndex([]).candidates(["", "abcdefghijkl"]))
