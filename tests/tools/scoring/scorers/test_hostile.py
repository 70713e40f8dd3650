"""No reply makes a scorer fail, and none keeps it busy."""

import json
import time
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.tools.scoring.scorers import (
    bioprobench_err,
    bioprobench_gen,
    bioprobench_ord,
    bioprobench_pqa,
    noc4pc,
    par4pc,
    pi4pc,
    tablebench,
)

GOLD: dict[ModuleType, str] = {
    par4pc: json.dumps({"gold": ["A"], "silver": ["C"]}),
    pi4pc: json.dumps({"gold": [9], "silver": [66]}),
    noc4pc: "102",
    bioprobench_pqa: json.dumps({"answer": "0.3", "choices": ["0.2", "0.3"]}),
    bioprobench_ord: json.dumps({"steps": list("abcdefghij"), "order": list("jihgfedcba")}),
    bioprobench_err: "True",
    bioprobench_gen: json.dumps(["1. Mix this with that."] * 60),
    tablebench: json.dumps({"answer": "5, Strong 3%", "metric": "em_10"}),
}
SCORERS = pytest.mark.parametrize("scorer", list(GOLD), ids=lambda m: m.__name__.rpartition(".")[2])
WORDS = """[ANSWER_START] [ANSWER_END] {"answer": {"code": " } [ ] , A 102 - % & 80 9 . <think> </think>
 True 1e9 ² ٣ \\ ** 0.3 null"""
PIECES = st.sampled_from([*WORDS.split(" "), "Final Answer:", " ", "\n", "\ud800", "NaN"])
LONG = 100_000
HOSTILE = [
    '{"answer":',
    '{"answer": [',
    "[",
    "{",
    ", ",
    " ",
    "\n",
    "Final Answer:",
    "Final Answer:\n",
    "[ANSWER_START]",
    "*",
    "#",
]
HOSTILE += ["-$", "1.", "1,", "1,111", "1e1", "&", "%", ",\t", "<think>", "A,", "0, ", "a b ", "…", "y", "ational"]


@SCORERS
@given(st.lists(PIECES | st.text(max_size=5), max_size=30).map("".join))
def test_any_reply_is_judged(scorer: ModuleType, reply: str) -> None:
    verdict = scorer.judge(GOLD[scorer], reply)
    assert 0 <= verdict["value"] <= 1
    assert verdict["parsed"] is not None or verdict["value"] == 0
    assert all(isinstance(value, float) for value in scorer_summary(scorer, [verdict]).values())
    assert scorer.judge(GOLD[scorer], reply) == verdict


def scorer_summary(scorer: ModuleType, rows: list[dict[str, object]]) -> dict[str, float]:
    found: dict[str, float] = scorer.summary(rows)
    return found


@SCORERS
def test_twice_the_length_is_about_twice_the_work(scorer: ModuleType) -> None:
    """What grows with the square of the length takes minutes here; CPU time, with room for a busy machine."""
    began = time.process_time()
    bodies = [piece * (LONG // len(piece)) for piece in HOSTILE]
    for body in [*bodies, " ".join(f"{i}yational" for i in range(LONG // 12))]:
        for reply in (
            body,
            f"[ANSWER_START]{body}[ANSWER_END]",
            f"Final Answer:{body}",
            f'{{"answer": {body}}}',
            f'{{"code": "{body}"}}',
        ):
            scorer.judge(GOLD[scorer], reply)
    assert time.process_time() - began < 60


def test_a_summary_of_items_whose_scorer_failed() -> None:
    failed: dict[str, object] = {"parsed": None, "value": 0.0, "error": "ValueError: gold"}
    for scorer in GOLD:
        assert all(value <= 1 for value in scorer_summary(scorer, [failed]).values())
