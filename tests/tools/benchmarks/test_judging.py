"""Scorers by file: the same verdict here and in an engine, whatever a scorer does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.benchmark import Benchmark
from tuneloop.core.errors import SetupError
from tuneloop.tools.benchmarks import judging, load
from tuneloop.tools.benchmarks.scorer import SCORING, judge, reader, scorer_file

SCORER = """
from .shared import half
def judge(gold, reply):
    if reply == "raise": raise KeyError("no such thing")
    return {"parsed": reply or None, "value": {"right": 1, "half": half(), "nan": float("nan")}.get(reply, 0), "n": len(reply)}
def summary(rows):
    return {"letters": sum(row.get("n", 0) for row in rows)}
"""


@pytest.fixture
def scorer(tmp_path: Path) -> str:
    (tmp_path / "shared.py").write_text("def half(): return 0.5\n")
    (tmp_path / "mine.py").write_text(SCORER)
    return str(tmp_path / "mine.py")


def test_verdicts_and_further_metrics(scorer: str) -> None:
    ask = judging.judge_of(str(SCORING), "scorer:mine", scorer)
    found = [judging.judged(ask, "g", reply) for reply in ("right", "half", "wrong", "")]
    assert [(v["parsed"], v["value"]) for v in found] == [("right", 1), ("half", 0.5), ("wrong", 0), (None, 0)]
    assert judging.summary(scorer, found) == {"letters": 14.0}
    assert judging.summary("", found) == {}


@pytest.mark.parametrize(
    ("reply", "says"), [("raise", "KeyError: 'no such thing'"), ("nan", "ValueError: value is nan")]
)
def test_an_item_on_which_the_scorer_fails_is_wrong_and_says_why(scorer: str, reply: str, says: str) -> None:
    found = judging.judged(judging.judge_of(str(SCORING), "scorer:mine", scorer), "g", reply)
    assert (found["parsed"], found["value"], found["extra"]) == (None, 0, {})
    assert found["error"].startswith(says)


def test_a_plain_kind_needs_no_file() -> None:
    boxed = Benchmark(name="b", description="d", answer="boxed")
    assert scorer_file(boxed) is None
    assert judge(boxed, "3", r"so \boxed{3}") == {"parsed": "3", "value": 1.0, "extra": {}, "error": ""}


def test_an_unknown_scorer_is_refused() -> None:
    with pytest.raises(SetupError, match="scorer 'nosuch' is unknown"):
        scorer_file(Benchmark(name="b", description="d", answer="scorer:nosuch"))


def test_a_reader_knows_what_a_scorer_of_its_own_finds() -> None:
    gsm8k = load("gsm8k")[0]
    readable = reader(gsm8k, ["12", "7"])
    assert readable(r"3 + 4 = 7, so \boxed{7}")
    assert not readable("no number at all")
    assert reader(Benchmark(name="b", description="d", answer="boxed"), ())(r"\boxed{1}")
    unjudged = reader(load("math500")[0], ["1"])
    assert unjudged("anything")
    assert not unjudged(" ")
