"""Failures are told apart by what one would do about them."""

from __future__ import annotations

import pytest

from tuneloop.core.score import GroupScore, ItemResult, Score
from tuneloop.tools.scoring.failures import KINDS, MEANING, explain_failures, failure_kind


def item(name: str, prediction: str = "x", parsed: str | None = "1", value: float = 0.0, **more: object) -> ItemResult:
    given = {"id": name, "prediction": prediction, "parsed": parsed, "answer": "7", "correct": value == 1}
    return ItemResult.model_validate({**given, "value": value, **more})


ITEMS = (
    item("right", parsed="7", value=1),
    item("empty", " \n", None),
    item("cut", "and on and on " * 40, None),
    item("form", "the answer is seven", None, group="b"),
    item("broken", parsed=None, error="ValueError: boom"),
    item("unknown", extra={"judge": "unknown"}),
    item("part", value=0.5),
    *(item(f"wrong{i}", parsed="4", group="b") for i in range(3)),
    item("other", parsed="5"),
)


def score(**more: object) -> Score:
    facts = {"benchmark": "b", "split": "validation", "metric": "m", "value": 9, "low": 0, "high": 20, "parsed": 60}
    return Score.model_validate({**facts, "n": len(ITEMS), "items": ITEMS, **more})


def told(**more: object) -> dict[str, object]:
    return explain_failures(score(), {i.id: f"prompt of {i.id}" for i in ITEMS}, 100, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("right", None),
        ("empty", "empty"),
        ("cut", "cut_off"),
        ("form", "unparsed"),
        ("broken", "scorer_failed"),
        ("unknown", "judge_unknown"),
        ("part", "partly_right"),
        ("wrong0", "wrong"),
    ],
)
def test_kinds(name: str, kind: str | None) -> None:
    assert failure_kind(next(i for i in ITEMS if i.id == name), 100) == kind


def test_counts_are_of_all_and_items_are_a_page() -> None:
    found = told(count=2, offset=1)
    kinds = {row["kind"]: (row["count"], row["examples"]) for row in found["kinds"]}  # type: ignore[attr-defined]
    assert kinds["wrong"] == (4, ["wrong0", "wrong1", "wrong2"])
    assert sum(count for count, _ in kinds.values()) == found["failed"] == 10
    assert [row["id"] for row in found["items"]] == ["cut", "form"]  # type: ignore[attr-defined]
    assert found["items"][0]["prompt"] == "prompt of cut"  # type: ignore[index]
    assert found["common_wrong_answers"] == [{"answer": "4", "count": 3}, {"answer": "1", "count": 2}]
    assert set(MEANING) == set(KINDS)


def test_a_page_of_one_kind_or_one_group() -> None:
    wrong, part = told(kind="wrong", count=50), told(group="b", count=50)
    assert [row["id"] for row in wrong["items"]] == ["wrong0", "wrong1", "wrong2", "other"]  # type: ignore[attr-defined]
    assert (part["chosen"], part["failed"]) == (4, 10)


def test_the_weakest_groups_come_first() -> None:
    groups = {"a": GroupScore(value=80, n=5, parsed=100), "b": GroupScore(value=20, n=6, parsed=50)}
    prompts = {i.id: "" for i in ITEMS}
    assert [row["group"] for row in explain_failures(score(groups=groups), prompts, 9)["groups"]] == ["b", "a"]
    low = explain_failures(score(groups=groups, direction="min"), prompts, 9)["groups"]
    assert [row["group"] for row in low] == ["a", "b"]
