"""Without a benchmark rows are trained on as the data have them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Diagnosis

LONG = "We begin with the number.\nThen we add.\nThe sum is"
LIMIT = re.compile(r"'solution': (\d+)")
ALPACA = [
    {"instruction": "Add the numbers.", "input": f"{i} and 4" if i % 2 else "", "output": f"{LONG} {i + 4}."}
    for i in range(60)
]


def told(w: Any, **changes: Any) -> dict[str, Any]:
    """What an agent of a run without a benchmark is told."""
    return {"task": w.brief().task.model_copy(update={"evaluated": False}), **changes}


def rows_of(w: Any, **changes: Any) -> list[dict[str, str]]:
    idea = w.hypothesis(**told(w))
    return list(w.run(w.script(idea, **told(w, **changes)).code))


def test_rows_stay_as_they_are_and_input_is_asked_too(world) -> None:
    w = world("exact", [], {"rows.jsonl": [*ALPACA, ALPACA[1]]})
    rows = rows_of(w)
    asked = {row["instruction"]: row["output"] for row in rows}
    assert len(rows) == len(asked) == 31, "the rows without an input ask the same"
    assert asked["Add the numbers.\n7 and 4"] == f"{LONG} 11."


@pytest.mark.parametrize(
    ("row", "asked", "said"),
    [
        (lambda i: {"question": f"What is {i}?", "answer": f"{i}"}, "What is 5?", "5"),
        (lambda i: {"prompt": f"Say {i}", "completion": f"I say: {i}. Good."}, "Say 5", "I say: 5. Good."),
        (
            lambda i: {
                "messages": [{"role": "user", "content": f"hi {i}"}, {"role": "assistant", "content": f"ho {i}"}]
            },
            "hi 5",
            "ho 5",
        ),
    ],
)
def test_layouts_are_read_by_their_names(world, row, asked: str, said: str) -> None:
    rows = rows_of(world("exact", [], {"rows.jsonl": [row(i) for i in range(40)]}))
    assert {"instruction": asked, "input": "", "output": said} in rows
    assert len(rows) == 40


def test_idea_claims_no_gain(world) -> None:
    w = world("exact", [], {"rows.jsonl": ALPACA})
    idea = w.hypothesis(**told(w))
    assert [step.do for step in idea.data_plan] == ["use_source", "dedupe"]
    assert "nothing is evaluated" in idea.reason
    assert idea.training_plan


def test_too_long_rows_go_by_the_lengths_of_the_data(world) -> None:
    rows = [{"question": f"q{i} " * (30 if i % 30 else 900), "answer": f"{LONG} {LONG} {LONG} {i}."} for i in range(60)]
    w = world("exact", [], {"rows.jsonl": rows})
    cure = Diagnosis(culprit="data", problem="records are longer than cutoff_len", repair="shorter rows")
    kept = rows_of(w, diagnosis=cure, attempt=1)
    assert len(kept) == 58
    idea = w.hypothesis(**told(w))
    cut = [LIMIT.search(w.script(idea, **told(w, diagnosis=cure, attempt=n)).code) for n in (1, 2, 3)]
    first, second, third = (int(found[1]) for found in cut if found)
    assert first > second > third, "attempts add up"
    assert max(len(row["instruction"]) for row in kept) < 200


def test_data_without_questions_are_refused(world) -> None:
    w = world("exact", [], {"rows.jsonl": [{"id": i, "score": i} for i in range(40)]})
    with pytest.raises(RecipeError, match="no source holds questions and replies"):
        w.hypothesis(**told(w))
