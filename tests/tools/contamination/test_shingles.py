"""The index gives up no pair that holds: whatever was cut or moved, and however common or short the sentences are."""

import random
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneloop.tools.contamination import shingles
from tuneloop.tools.contamination.letters import merged
from tuneloop.tools.contamination.matching import holds
from tuneloop.tools.contamination.probes import SIZE, Probe
from tuneloop.tools.contamination.shingles import ShingleIndex

LETTERS = "abcdefghjknpqrtuvwxy"


def sentence(rng: random.Random, size: int) -> str:
    return "".join(rng.choices(LETTERS, k=size))


def probe(item: int, parts: list[str], *, whole: bool = False) -> Probe:
    return Probe(item, "".join(parts), tuple(accumulate(map(len, parts))), whole)


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.booleans())
def test_what_holds_is_a_candidate(rng: random.Random, whole: bool) -> None:
    common = [sentence(rng, rng.randint(SIZE, 40)) for _ in range(3)]
    own = [
        [*rng.sample(common, rng.randint(0, 3)), *(sentence(rng, rng.randint(SIZE, 40)) for _ in range(3))]
        for _ in range(9)
    ]
    probes = [probe(i, parts, whole=whole) for i, parts in enumerate(own)]
    texts = []
    for parts in own:
        cut = rng.randrange(len(parts))
        left = parts[:cut] + parts[cut + rng.randint(0, 2) :]
        texts.append(merged(sentence(rng, 20) + "".join(rng.sample(left, len(left))) + sentence(rng, 20)))
    held = {(t, p.item) for t, text in enumerate(texts) for p in probes if holds(text, text, p)}
    assert held <= set(ShingleIndex(probes).candidates(texts))


def test_short_sentences_are_looked_for_together() -> None:
    rng = random.Random(1)
    every = [[sentence(rng, rng.randint(2, 7)) for _ in range(12)] for _ in range(50)]
    index = ShingleIndex([probe(i, parts) for i, parts in enumerate(every)])
    rest = [merged("".join(parts[:5] + parts[8:])) for parts in every]
    assert list(index.candidates(rest)) == [(i, i) for i in range(50)]


def test_what_all_probes_say_finds_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shingles, "COMMON", 4)
    rng = random.Random(2)
    said = sentence(rng, 30)
    probes = [probe(i, [said, sentence(rng, 40)]) for i in range(20)]
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
