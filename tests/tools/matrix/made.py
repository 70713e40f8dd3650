"""Evaluations of the matrix, made without an engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tuneloop.core.files import write_json
from tuneloop.tools.matrix.evaluation import RESULTS, SUMMARY
from tuneloop.tools.matrix.report import write_report
from tuneloop.tools.statistics import wilson


def cell(root: Path, experiment: str, asked: str, right: Sequence[bool], seed: int = 1, task: str = "sums") -> Path:
    place = root / f"{experiment}{seed}_{asked}"
    samples = [
        {
            "id": f"v{i}",
            "prompt": "?",
            "prediction": "!",
            "extracted": None,
            "gold": "1",
            "correct": ok,
            "value": float(ok),
        }
        for i, ok in enumerate(right)
    ]
    low, high = wilson(sum(right), len(right))
    numbers = {"accuracy": 100 * sum(right) / len(right), "low": low, "high": high, "n": len(right), "parsed": 100.0}
    write_json(place / RESULTS, samples)
    told = {"task": task, "experiment": experiment, "seed": seed, "eval_format": asked, "model": "m", "truncated": 0}
    write_json(place / SUMMARY, {**told, **numbers, "key": "k", "measured_with": "w"})
    return place


def half(count: int, of: int = 100) -> list[bool]:
    return [i < count for i in range(of)]


def result_tree(results: Path) -> Path:
    """`results/sums/` with three cells and their report, as `tuneloop matrix` leaves it."""
    tree = results / "sums"
    given = (("sft_chat_template", "chat", 80), ("sft_chat_template", "raw", 10), ("sft_no_chat_mask_q", "raw", 79))
    places = [cell(tree / "eval", name, asked, half(right)) for name, asked, right in given]
    write_report(places, tree / "report")
    return tree
