"""The linear reader: what it is learnt from, and what it makes of words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agents.steering.teaching import learning
from tuneloop.agents.steering.clause import tagged
from tuneloop.agents.steering.filling import FILLS
from tuneloop.agents.steering.likeness import LEARNT, SEVERAL, features, frame, learnt

SMALL = {
    "finish": ["stop after this one", "make this the last one", "this one is the last"],
    "use": ["try rank 32", "use rank 16", "set the rank to 8"],
    "aside": ["the demo is at four", "good news", "my tea is cold"],
    "unclear": ["how is the weather", "if it rains, stop", "hm"],
}


def test_the_reader_was_learnt_from_the_examples_that_are_here() -> None:
    assert learnt().digest == learning.digest(learning.frames(learning.examples())), "run make phrasings"


def test_every_kind_has_examples_and_a_fill() -> None:
    assert set(learnt().kinds) == {*FILLS, SEVERAL}
    assert {kind: len(lines) for kind, lines in learning.examples().items() if len(lines) < 50} == {}


def test_no_example_is_said_of_two_kinds() -> None:
    rows = [(said.lower(), kind) for kind, lines in learning.examples().items() for said in lines]
    assert len({said for said, _ in rows}) == len(rows)


def test_what_is_learnt_is_small() -> None:
    assert LEARNT.stat().st_size < 1 << 19


@given(st.text(max_size=80))
def test_shares_are_shares_of_one(text: str) -> None:
    shares = learnt().shares(text)
    assert sum(shares.values()) == pytest.approx(1, abs=1e-4)
    assert min(shares.values()) >= 0


@given(st.text(alphabet="abcde <>pn?", min_size=1, max_size=60))
def test_features_are_vectors_of_length_one(text: str) -> None:
    for group in features(text):
        assert not group or sum(value * value for value in group.values()) == pytest.approx(1)


def test_a_frame_names_kinds_of_things_and_no_things() -> None:
    known = learning.said_of()
    one, other = (
        learning.framed(said, known)
        for said in ("try lora rank 32 on the textbook", "try weight decay 0.1 on the forum posts")
    )
    assert one == other == "try <p> <n> on the <s>"
    assert frame(tagged("two more hours", known), asks=True).endswith(" ?")


def test_learning_is_the_same_every_time_and_survives_the_file(tmp_path: Path) -> None:
    rows, more = learning.frames(SMALL), learning.frames(learning.beside(SMALL))
    one, other = learning.learn(rows, more), learning.learn(rows, more)
    assert np.array_equal(one.weights, other.weights)
    assert one.places == other.places
    for kind, text in rows:
        shares = one.shares(text)
        assert max(shares, key=shares.__getitem__) == kind
    learning.save(one, tmp_path / "small.npz")
    with np.load(tmp_path / "small.npz", allow_pickle=False) as file:
        back = file["weights"].astype(np.float32) * file["scale"]
    assert np.abs(back - one.weights).max() <= np.abs(one.weights).max() / 200


def test_messages_of_two_kinds_are_learnt_as_several() -> None:
    mixed = learning.beside(SMALL)
    assert mixed[SEVERAL]
    assert all(any(said.rstrip(".") in line for said in SMALL["finish"] + SMALL["use"]) for line in mixed[SEVERAL])
    assert set(mixed) == {SEVERAL, "finish", "use"}, "asides change no meaning, and have none"
