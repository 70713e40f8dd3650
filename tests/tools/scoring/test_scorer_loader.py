"""Scorers by file: the same verdict here and in an engine, whatever a scorer does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tuneloop.core.catalog import ANSWER_KINDS, Benchmark
from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.benchmark_items.resolve import load_entry, registered_names
from tuneloop.tools.scoring import scorer_loader
from tuneloop.tools.scoring.scorer import SCORING, answer_reader, is_judged_here, judge_reply, scorer_file, scorer_reads

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
    ask = scorer_loader.judge_of(str(SCORING), "scorer:mine", scorer)
    found = [scorer_loader.judged(ask, "g", reply) for reply in ("right", "half", "wrong", "")]
    assert [(v["parsed"], v["value"]) for v in found] == [("right", 1), ("half", 0.5), ("wrong", 0), (None, 0)]
    assert scorer_loader.summary(scorer, found) == {"letters": 14.0}
    assert scorer_loader.summary("", found) == {}


@pytest.mark.parametrize(
    ("reply", "says"), [("raise", "KeyError: 'no such thing'"), ("nan", "ValueError: value is nan")]
)
def test_an_item_on_which_the_scorer_fails_is_wrong_and_says_why(scorer: str, reply: str, says: str) -> None:
    found = scorer_loader.judged(scorer_loader.judge_of(str(SCORING), "scorer:mine", scorer), "g", reply)
    assert (found["parsed"], found["value"], found["extra"]) == (None, 0, {})
    assert found["error"].startswith(says)


def test_a_plain_kind_needs_no_file() -> None:
    boxed = Benchmark(name="b", description="d", answer="boxed")
    assert scorer_file(boxed) is None
    assert judge_reply(boxed, "3", r"so \boxed{3}") == {"parsed": "3", "value": 1.0, "extra": {}, "error": ""}


def test_an_unknown_scorer_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="scorer 'nosuch' is unknown"):
        scorer_file(Benchmark(name="b", description="d", answer="scorer:nosuch"))


def test_a_reader_knows_what_a_scorer_of_its_own_finds() -> None:
    gsm8k = load_entry("gsm8k")[0]
    readable = answer_reader(gsm8k, ["12", "7"])
    assert readable(r"3 + 4 = 7, so \boxed{7}")
    assert not readable("no number at all")
    assert answer_reader(Benchmark(name="b", description="d", answer="boxed"), ())(r"\boxed{1}")
    unjudged = answer_reader(load_entry("math500")[0], ["1"])
    assert unjudged("anything")
    assert not unjudged(" ")


GOLDS = {
    "boxed": "41", "choice": "B", "number": "41", "exact": "Paris",
    "bbh": "(B)", "bioprobench_err": "True", "bioprobench_gen": '["1. Mix."]',
    "bioprobench_ord": '{"steps": ["a", "b"], "order": ["b", "a"]}',
    "bioprobench_pqa": '{"answer": "0.3", "choices": ["0.2", "0.3"]}',
    "contest_integer": "204", "final_number": "41", "noc4pc": "102", "par4pc": '{"gold": ["A", "C"], "silver": []}',
    "pi4pc": '{"gold": [9], "silver": [66]}', "tablebench": '{"answer": "5", "metric": "em"}',
}  # fmt: skip


def examples(declared: Benchmark) -> list[str]:
    return re.findall("`([^`]+)`", scorer_reads(declared))


@pytest.mark.parametrize("name", registered_names())
def test_every_benchmark_says_what_its_scorer_reads(name: str) -> None:
    declared = load_entry(name)[0]
    if declared.parts:
        return
    assert len(scorer_reads(declared)) < 250
    assert "`" in scorer_reads(declared)
    key = declared.scorer or declared.answer
    if is_judged_here(declared) and key != "code":
        assert key in GOLDS


@pytest.mark.parametrize("kind", GOLDS)
def test_the_example_is_right_where_it_is_the_gold_answer(kind: str) -> None:
    """A sentence that is no longer true of its scorer is found out."""
    declared = Benchmark(name="b", description="d", answer=kind if kind in ANSWER_KINDS else f"scorer:{kind}")
    (example,) = examples(declared)
    assert judge_reply(declared, GOLDS[kind], example)["value"] == 1


def test_a_pattern_is_told_as_it_is() -> None:
    assert scorer_reads(Benchmark(name="b", description="d", answer="regex:ANS=(\\d+)")).endswith(
        "last match of `ANS=(\\d+)`"
    )
