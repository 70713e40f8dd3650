"""A score is believed item by item or not at all."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.stand_in_engine import collect_scores
from tuneloop.core.errors import InfrastructureError, RecipeError
from tuneloop.core.files import write_json
from tuneloop.core.layout import Home
from tuneloop.tools.benchmark_items.resolve import resolve_benchmark
from tuneloop.tools.evaluation.item_sets import ItemSet, make_item_set
from tuneloop.tools.scoring.scorer import judge_reply
from tuneloop.tools.scoring.verdicts import read_rows


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> ItemSet:
    return make_item_set(
        resolve_benchmark("wordproblems", Home(tmp_path_factory.mktemp("home")), None), "validation", 10
    )


def results(asked: ItemSet, right: int, model: str = "one") -> dict[str, Any]:
    rows = []
    for i, item in enumerate(asked.items):
        text = f"so \\boxed{{{item.answer}}}" if i < right else "no idea"
        verdict = judge_reply(asked.benchmark, item.answer, text)
        rows.append({"id": item.id, "prediction": text, "answer": item.answer, **verdict})
    accuracy = 100 * right / len(asked.items)
    return {"model": model, "set": asked.name, "accuracy": accuracy, "truncated": 0, "items": rows}


def write(out: Path, *rows: dict[str, Any]) -> Path:
    write_json(out / "results.json", {"results": rows, "versions": {}})
    return out


def test_scores_have_interval_parse_rate_and_items_in_order(tmp_path: Path, asked: ItemSet) -> None:
    first = results(asked, 4)
    first["items"].reverse()
    first["truncated"] = 3
    guard = replace(asked, name="guard", items=asked.items[:5])
    found = collect_scores(write(tmp_path, first, results(asked, 7, "two"), results(guard, 1)), [asked, guard])
    assert {pair: score.value for pair, score in found.items()} == {
        ("one", "wordproblems"): 40,
        ("two", "wordproblems"): 70,
        ("one", "guard"): 20,
    }
    one = found["one", "wordproblems"]
    assert (one.n, one.parsed, one.split, one.benchmark) == (10, 40, "validation", "wordproblems")
    assert one.low < 40 < one.high
    assert (one.truncated, found["two", "wordproblems"].truncated) == (3, 0)
    assert [item.id for item in one.items] == [item.id for item in asked.items]


def test_a_metric_to_be_small_counts_wrong_answers(tmp_path: Path, asked: ItemSet) -> None:
    errors = asked.benchmark.model_copy(update={"direction": "min", "metric": "error_rate"})
    found = collect_scores(write(tmp_path, results(asked, 4)), [replace(asked, benchmark=errors)])[
        "one", "wordproblems"
    ]
    assert (found.value, found.direction) == (60, "min")
    assert found.low < 60 < found.high


def nested(depth: int) -> Any:
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


Change = Callable[[dict[str, Any]], object]
LIES: dict[str, tuple[Change, str]] = {
    "a missing item": (lambda m: m["items"].pop(), "1 missing items"),
    "a foreign item": (lambda m: m["items"].append({**m["items"][0], "id": "x"}), "1 foreign items"),
    "an item twice": (lambda m: m["items"].append(m["items"][0]), "11 results for 10 items"),
    "a wrong verdict": (lambda m: m["items"][9].update(value=1.0), "verdict differs from ours in value$"),
    "another parse": (lambda m: m["items"][0].update(parsed="-1"), "verdict differs from ours in parsed$"),
    "another gold answer": (
        lambda m: m["items"][0].update(answer="-1"),
        "verdict is about another answer than the item's$",
    ),
    "an answer that is no text": (lambda m: m["items"][0].update(prediction=None), "is no text"),
    "no verdict": (lambda m: m["items"][0].pop("value"), "are broken"),
    "another accuracy": (lambda m: m.update(accuracy=99.0), r"the engine reports 99\.0"),
    "no number": (lambda m: m.update(accuracy=float("nan")), "is broken: NaN"),
    "an accuracy beyond all numbers": (lambda m: m.update(accuracy=10**400), "are broken"),
    "an accuracy that is a text": (lambda m: m.update(accuracy="40"), "are broken"),
    "items that are no list": (lambda m: m.update(items={"a": 1}), "are broken"),
    "an item that is no object": (lambda m: m["items"].append(1), "are broken"),
    "an id that is a list": (lambda m: m["items"][0].update(id=[1]), "are broken"),
    "ids of two kinds": (lambda m: m["items"].extend([{"id": 1}, {"id": "x"}]), "are broken"),
    "an answer without end": (lambda m: m["items"][0].update(prediction="x" * 10**6), "more than tokens can have"),
    "half a character": (lambda m: m["items"][0].update(prediction="\ud800"), "is broken"),
    "nesting without end": (lambda m: m["items"].append(nested(5000)), "is broken"),
}


@pytest.mark.parametrize("lie", LIES)
def test_wrong_engine_verdicts_are_named(lie: str, tmp_path: Path, asked: ItemSet) -> None:
    change, says = LIES[lie]
    told = results(asked, 4)
    change(told)
    (tmp_path / "results.json").write_text(dumped({"results": [told]}))
    with pytest.raises(InfrastructureError, match=says):
        collect_scores(tmp_path, [asked])


def test_results_on_another_set_are_refused(tmp_path: Path, asked: ItemSet) -> None:
    out = write(tmp_path, {**results(asked, 4), "set": "x"})
    with pytest.raises(InfrastructureError, match=r"has one on x; right is one on wordproblems$"):
        read_rows(out, {("one", "wordproblems")})


@pytest.mark.parametrize(
    "lie", ["a wrong verdict", "another parse", "another gold answer", "an answer that is no text"]
)
def test_wrong_verdict_is_named_without_item_text(lie: str, tmp_path: Path, asked: ItemSet) -> None:
    """Such a line lies in the log and in transcripts; the item may be one that agents do not see."""
    told = results(asked, 10)
    for row in told["items"]:
        row["prediction"] = f"SECRET {row['prediction']}"
    told["items"][9]["value"] = 0.0
    LIES[lie][0](told)
    if lie == "a wrong verdict":
        told["items"][9]["value"] = 0.5
    (tmp_path / "results.json").write_text(dumped({"results": [told]}))
    with pytest.raises(InfrastructureError) as caught:
        collect_scores(tmp_path, [asked])
    assert "SECRET" not in str(caught.value)
    assert not any(f"'{item.answer}'" in str(caught.value) for item in asked.items)


def test_items_that_agents_do_not_see_count_and_stay_apart(tmp_path: Path, asked: ItemSet) -> None:
    hidden = frozenset(item.id for item in asked.items[::2])
    apart = replace(asked, unseen=hidden)
    whole = collect_scores(write(tmp_path, results(asked, 4)), [asked])["one", "wordproblems"]
    found = collect_scores(tmp_path, [apart])["one", "wordproblems"]
    assert (found.n, found.value, found.low, found.high) == (10, 40, whole.low, whole.high)
    assert {item.id for item in found.unseen} == hidden
    assert {item.id for item in found.items} == {item.id for item in asked.items} - hidden
    assert sorted(item.id for item in found.every) == sorted(item.id for item in whole.items)


def dumped(value: Any) -> str:
    """JSON, however deep."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        return json.dumps(value)
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize("make", [lambda p: p.symlink_to("elsewhere.json"), os.mkfifo, Path.mkdir])
def test_results_that_are_no_plain_file_are_not_opened(
    make: Callable[[Path], None], tmp_path: Path, asked: ItemSet
) -> None:
    write(tmp_path, results(asked, 4))
    (tmp_path / "results.json").rename(tmp_path / "elsewhere.json")
    make(tmp_path / "results.json")
    with pytest.raises(InfrastructureError, match="no plain file"):
        collect_scores(tmp_path, [asked])


def test_exactly_what_was_wanted_is_there(tmp_path: Path, asked: ItemSet) -> None:
    write(tmp_path, results(asked, 4), results(asked, 5, "two"))
    both = [("one", "wordproblems"), ("two", "wordproblems")]
    assert list(read_rows(tmp_path, both)) == both
    for wanted in (both[:1], [*both, ("three", "wordproblems")]):
        with pytest.raises(InfrastructureError, match="right is one on wordproblems"):
            read_rows(tmp_path, wanted)
    with pytest.raises(InfrastructureError, match="each pair once"):
        read_rows(write(tmp_path, results(asked, 4), results(asked, 4)))


def test_without_results_nothing_was_measured(tmp_path: Path, asked: ItemSet) -> None:
    with pytest.raises(RecipeError, match=r"left no results\.json"):
        collect_scores(tmp_path, [asked])
    (tmp_path / "results.json").write_text('{"results": [')
    with pytest.raises(InfrastructureError, match="is broken"):
        collect_scores(tmp_path, [asked])
