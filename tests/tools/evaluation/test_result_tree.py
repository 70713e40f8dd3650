"""OpenCompass's result tree of an experiment: the CSV with its average, shown replies alone, one tree after a kill."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from tuneloop.core.score import ItemResult, Score
from tuneloop.tools.evaluation.result_tree import summary_rows, write_experiment_tree


def score(benchmark: str, value: float) -> Score:
    """Two items, of which agents see one."""
    shown = ItemResult(id="v1", prediction="4", parsed="4", answer="4", correct=True)
    unseen = ItemResult(id="v2", prediction="hidden-reply", parsed=None, answer="hidden-answer", correct=False)
    return Score(
        benchmark=benchmark, split="validation", metric="accuracy", direction="max", value=value, low=0, high=100, n=2,
        parsed=50, items=(shown,), unseen=(unseen,),
    )  # fmt: skip


def test_the_csv_ends_with_the_average() -> None:
    text = summary_rows({"a": score("a", 62.3), "b": score("b", 45.7)})
    assert text.splitlines() == [
        "dataset,score,metric",
        "a,62.3,accuracy",
        "b,45.7,accuracy",
        "Average Score,54.0,average",
    ]


def test_result_tree_shows_seen_items_and_replaces_older_one(tmp_path: Path) -> None:
    root = tmp_path / "benchmark_results"
    (root / "20260101_000000" / "summary").mkdir(parents=True)
    place = write_experiment_tree(root, [score("a", 50.0)], 1e9)
    assert write_experiment_tree(root, [score("a", 50.0)], 1e9) == place, "the same name after a kill"
    assert [p.name for p in root.iterdir()] == [place.name]
    with (place / "summary" / f"summary_{place.name}.csv").open() as f:
        assert [row["dataset"] for row in csv.DictReader(f)] == ["a", "Average Score"]
    replies = json.loads((place / "predictions" / "model" / "a.json").read_text())
    assert replies == {"0": {"prediction": "4", "gold": "4", "id": "v1"}}
    assert not any("hidden" in p.read_text() for p in place.rglob("*") if p.is_file())
