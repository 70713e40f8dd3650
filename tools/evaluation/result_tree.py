"""OpenCompass's result tree of an experiment, as the original's users know it: the CSV, and replies to items that are shown."""

from __future__ import annotations

import csv
import io
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from tuneloop.core.files import write_atomic, write_json
from tuneloop.core.score import Score

COLUMNS = ("dataset", "score", "metric")
AVERAGE = "Average Score"
DIGITS = 2


def summary_rows(scores: Mapping[str, Score]) -> str:
    """The CSV: a line a benchmark, then their average."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((name, round(score.value, DIGITS), score.metric) for name, score in scores.items())
    if scores:
        writer.writerow((AVERAGE, round(fmean(score.value for score in scores.values()), DIGITS), "average"))
    return text.getvalue()


def write_experiment_tree(root: Path, scores: Sequence[Score], began: float) -> Path:
    """`root/<time>/`, in place of what a killed attempt left; returns it. Items that agents do not see are not in it.

    `began`: when the evaluation began, in seconds since 1970, so that whoever writes it again uses the same name.
    """
    shutil.rmtree(root, ignore_errors=True)
    place = root / time.strftime("%Y%m%d_%H%M%S", time.localtime(began))
    for score in scores:
        replies = {
            str(i): {"prediction": item.prediction, "gold": item.answer, "id": item.id}
            for i, item in enumerate(score.items)
        }
        write_json(place / "predictions" / "model" / f"{score.benchmark}.json", replies)
    write_atomic(
        place / "summary" / f"summary_{place.name}.csv", summary_rows({score.benchmark: score for score in scores})
    )
    return place
