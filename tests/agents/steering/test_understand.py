"""What people say is understood, or it is unclear; nothing dangerous is guessed."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.agents.steering.corpus import alike, known, phrasings, read, right
from tests.agents.steering.teaching import learning
from tuneloop.agents.steering import Known, understand
from tuneloop.agents.steering.clause import tagged
from tuneloop.agents.steering.numbers import number
from tuneloop.agents.steering.spelling import near
from tuneloop.core.directive import Bound, Delete, Extend, Publish, Reply, Unclear, Use, dangerous

DEVELOPMENT, HELD_OUT, UNSEEN = phrasings("development"), phrasings("held_out"), phrasings("unseen")
LEARNT = [line for number in range(4, 11) for line in phrasings(f"held_out_{number}")]
WORDS = sorted({word for line in DEVELOPMENT for word in line["say"].lower().split()})
HARMLESS = st.lists(st.sampled_from([w for w in WORDS if w.isalpha()]), max_size=12).map(" ".join)


def grave(meaning: Any) -> bool:
    """Whether it removes, spends or publishes, or says yes to that."""
    if isinstance(meaning, Reply):
        return meaning.yes
    return isinstance(meaning, Delete | Publish) or (isinstance(meaning, Extend) and dangerous(meaning))


@pytest.mark.parametrize("line", DEVELOPMENT + LEARNT, ids=lambda line: str(line["say"])[:50])
def test_phrasings_that_are_learnt_from(line: dict[str, Any]) -> None:
    assert right(line), read(line)


def test_phrasings_that_are_not_learnt_from() -> None:
    taught = {said.lower() for said in chain(*learning.examples().values())}
    lines = [line for line in HELD_OUT + UNSEEN if line["say"].lower() not in taught]
    assert len(lines) >= 275
    wrong = [line["say"] for line in lines if not alike(line)]
    assert len(wrong) <= len(lines) / 10, wrong


@pytest.mark.parametrize("line", DEVELOPMENT + HELD_OUT + UNSEEN + LEARNT, ids=lambda line: str(line["say"])[:50])
def test_nothing_dangerous_is_guessed(line: dict[str, Any]) -> None:
    meant = [
        m
        for m in line["means"]
        if m["kind"] in ("delete", "publish") or m.get("tokens") or m.get("money") or m.get("yes")
    ]
    assert bool(meant) or not any(map(grave, read(line)))


@given(st.text(max_size=300), st.booleans())
def test_nothing_that_is_said_is_an_error(text: str, pending: bool) -> None:
    found = understand(text, known(pending=pending))
    assert found
    assert found == understand(text, known(pending=pending))


@given(HARMLESS, st.booleans())
def test_words_in_any_order_are_no_error(text: str, pending: bool) -> None:
    assert understand(text, known(pending=pending))


@given(st.lists(st.text(alphabet="bcdfgjlpqvxz", min_size=3, max_size=9), min_size=1, max_size=8).map(" ".join))
def test_garbage_is_unclear(text: str) -> None:
    assert [m.kind for m in understand(text, known())] == ["unclear"]


@given(HARMLESS)
@example("running and")
def test_a_no_before_what_is_dangerous_is_never_lost(words: str) -> None:
    assume(not words.startswith("possible"))  # which is no condition
    for said in (
        f"do not delete experiment 1 {words}",
        f"never publish it to the hub {words}",
        f"if {words} delete the run",
    ):
        assert not any(isinstance(m, Delete | Publish) for m in understand(said, known()))


LIMITS = ("never raise the learning rate above {}", "lr at most {}", "keep lr below {}", "lr <= {}")


@given(st.floats(1e-7, 1e-2), st.sampled_from(LIMITS))
def test_numbers_are_read_as_they_are_written(value: float, said: str) -> None:
    short = f"{value:.3g}"
    assert understand(said.format(short), known()) == (Bound(parameter="learning_rate", at_most=float(short)),)


def test_numbers() -> None:
    said = {
        "1e-4": 1e-4,
        "0.0001": 1e-4,
        "20k": 20_000,
        "1,500": 1500,
        "twenty five": 25,
        "two hundred": 200,
        "5%": 0.05,
    }
    said |= {".5": 0.5, "a dozen": 12, "1.5 million": 1.5e6}
    assert {text: number(text) for text in said} == pytest.approx(said)


def test_times() -> None:
    said = {"half an hour": 1800.0, "2h30": 9000.0, "1h 15min": 4500.0, "an hour and a half": 5400.0, "90m": 5400.0}
    said |= {"2:30 hours": 9000.0, "a day": 86400.0, "an hour and thirty minutes": 5400.0, "1.5 h": 5400.0}
    assert {text: tagged(text, known()).all("t") for text in said} == {
        text: [seconds] for text, seconds in said.items()
    }


def test_without_words_for_parameters_nothing_is_taken_for_one() -> None:
    assert understand("try lora rank 32", Known())[0].kind in ("focus", "unclear")


def test_powers_of_ten_as_people_write_them() -> None:
    for said in ("1×10⁻⁴", "1 x 10^-4", "10^-4", "1·10**-4", "1e-4", "0.0001", "1E-4"):
        assert understand(f"use a learning rate of {said}", known()) == (Use(parameter="learning_rate", value=1e-4),), (
            said
        )


def test_a_long_message_is_cut_and_not_an_error() -> None:
    assert understand("try " * 5000, known())
    assert isinstance(understand("", known())[0], Unclear)


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("lerning", "learning"),
        ("bathc", "batch"),
        ("epcoh", "epoch"),
        ("experiemnt", "experiment"),
        ("finsh", "finish"),
    ],
)
def test_one_slip_is_forgiven(said: str, right: str) -> None:
    assert near(said, right)


@pytest.mark.parametrize(
    ("said", "other"),
    [
        ("doubled", "double"),
        ("newer", "never"),
        ("ever", "never"),
        ("lost", "loss"),
        ("approved", "approve"),
        ("epoch", "epoch"),
    ],
)
def test_another_word_is_no_slip(said: str, other: str) -> None:
    assert not near(said, other)
