import json
from typing import Any

import pytest

from tuneloop.core.catalog import Benchmark
from tuneloop.tools.scoring import scorer
from tuneloop.tools.scoring.scorers import bioprobench_err, bioprobench_gen, bioprobench_ord, bioprobench_pqa

CHOICES = ["1×10⁵", "A", "Salt & pepper", "0.3", "PBS"]


def tags(answer: str) -> str:
    return f"Well. [ANSWER_START]{answer}[ANSWER_END]"


def pqa(answer: str, reply: str) -> dict[str, Any]:
    return bioprobench_pqa.judge(json.dumps({"answer": answer, "choices": CHOICES}), reply)


@pytest.mark.parametrize(
    ("reply", "parsed", "brier"),
    [
        (tags("0.3 & 80%"), "0.3", 0.04),
        (tags("0.3&80"), "0.3", 0.04),
        (tags("D & 100 %"), "0.3", 0),
        (tags("d. 0.3 & 100"), "0.3", 0),
        (tags("D. PBS & 100"), None, 1),
        (tags("pbs & 100"), "PBS", 1),
        (tags("Salt & pepper & 50%"), "Salt & pepper", 0.25),
        (tags("Salt & pepper"), "Salt & pepper", 1),
        (tags("A & 50%"), "A", 0.25),
        (tags("0.3"), "0.3", 1),
        (tags("0.3 & 120%"), "0.3", 1),
        (tags("0.3 & sure"), "0.3", 1),
        (tags("0.30 & 80%"), None, 1),
        ("0.3 & 80%", None, 1),
        ("[ANSWER_START]0.3 & 80%", None, 1),
        (tags("PBS & 90%") + tags("0.3 & 100%"), "0.3", 0),
        ("<think>" + tags("0.3 & 80%"), None, 1),
    ],
)
def test_which_choice_a_reply_names(reply: str, parsed: str | None, brier: float) -> None:
    verdict = pqa("0.3", reply)
    assert (verdict["parsed"], verdict["value"]) == (parsed, float(parsed == "0.3"))
    assert verdict["brier"] == pytest.approx(brier)


@pytest.mark.parametrize(
    ("name", "readable", "not_readable"),
    [
        ("bioprobench_pqa", tags("a choice of another item & 90%"), ("90%", tags("PBS"), tags("& 90%"), "PBS & 90%")),
        ("bioprobench_ord", tags("[3, 0, 2, 1, 4, 5, 6]"), (tags("[1, 2]"), tags("[0, 0]"), "[0, 1]", tags("[]"))),
    ],
)
def test_filtered_rows_do_not_depend_on_query(name: str, readable: str, not_readable: tuple[str, ...]) -> None:
    """Rows to learn from have choices and numbers of steps of their own."""
    golds = {
        "bioprobench_pqa": json.dumps({"answer": "0.3", "choices": CHOICES}),
        "bioprobench_ord": json.dumps({"steps": ["b", "a"], "order": ["a", "b"]}),
    }
    reads = scorer.answer_reader(Benchmark(name="b", description="d", answer=f"scorer:{name}"), [golds[name]])
    assert reads(readable)
    assert not any(map(reads, not_readable))


def test_replies_that_cannot_be_read_count() -> None:
    rows = [pqa("0.3", tags("0.3 & 100%")), pqa("0.3", "no idea")]
    assert sum(row["value"] for row in rows) / len(rows) == 0.5
    assert bioprobench_pqa.summary(rows) == {"brier_score": 0.5}


ORDER = json.dumps({"steps": ["c", "a", "b"], "order": ["a", "b", "c"]})


@pytest.mark.parametrize(
    ("reply", "parsed", "value", "tau"),
    [
        (tags("[1, 2, 0]"), "[1, 2, 0]", 1, 1),
        (tags("[2,1,0]"), "[2, 1, 0]", 0, 1 / 3),
        (tags("[0, 2, 1]"), "[0, 2, 1]", 0, -1),
        (tags("[1, 2, 0, 0]"), None, 0, -1),
        (tags("[1, 2]"), None, 0, -1),
        (tags("[1, 2, 3]"), None, 0, -1),
        (tags("1, 2, 0"), None, 0, -1),
        (tags("[[1, 2, 0]]"), None, 0, -1),
        ("[1, 2, 0]", None, 0, -1),
    ],
)
def test_which_order_a_reply_gives(reply: str, parsed: str | None, value: float, tau: float) -> None:
    verdict = bioprobench_ord.judge(ORDER, reply)
    assert (verdict["parsed"], verdict["value"]) == (parsed, value)
    assert verdict["tau"] == pytest.approx(tau)


def test_steps_with_the_same_text_may_be_exchanged() -> None:
    gold = json.dumps({"steps": ["b", "a", "a"], "order": ["a", "b", "a"]})
    for reply in ("[1, 0, 2]", "[2, 0, 1]"):
        verdict = bioprobench_ord.judge(gold, tags(reply))
        assert (verdict["value"], verdict["tau"]) == (1, 1)


def test_an_unreadable_order_is_the_worst() -> None:
    rows = [bioprobench_ord.judge(ORDER, reply) for reply in (tags("[1, 2, 0]"), "?")]
    assert bioprobench_ord.summary(rows) == {"kendall_tau": 0}


@pytest.mark.parametrize(
    ("reply", "parsed"),
    [
        (tags("True"), "True"),
        (tags("false."), "False"),
        (tags("It is not True"), None),
        (tags("True or False"), None),
        ("True", None),
    ],
)
def test_what_a_reply_says_of_a_step(reply: str, parsed: str | None) -> None:
    verdict = bioprobench_err.judge("True", reply)
    assert (verdict["parsed"], verdict["value"]) == (parsed, float(parsed == "True"))


def test_one_lucky_answer_among_silence_is_not_perfect() -> None:
    rows = [
        bioprobench_err.judge(*one)
        for one in (("False", tags("False")), ("False", ""), ("True", ""), ("True", tags("True")))
    ]
    # one error found, one missed, one right step called wrong
    assert bioprobench_err.summary(rows) == {"precision": 50.0, "recall": 50.0, "f1": 50.0}


def test_a_written_protocol_is_measured_between_its_tags() -> None:
    gold = json.dumps(["1. Mix the tube.", "2. Spin it."])
    verdict = bioprobench_gen.judge(gold, tags("1. Mix the tube.\n2. Spin it."))
    assert verdict["value"] == verdict["rouge_1"] == verdict["rouge_2"] == 1
    assert verdict["bleu"] == pytest.approx(1)
    half = bioprobench_gen.judge(gold, tags("1. Mix the tube."))
    assert half["value"] == pytest.approx(2 * 4 / (7 + 4))
    silent = bioprobench_gen.judge(gold, "1. Mix the tube.\n2. Spin it.")
    assert silent["parsed"] is None
    assert [silent[name] for name in ("value", "rouge_1", "rouge_2", "bleu")] == [0, 0, 0, 0]
    assert bioprobench_gen.summary([verdict, silent]) == pytest.approx({"rouge_1": 50, "rouge_2": 50, "bleu": 50})
