"""The result tree that the seeds describe: a folder a time, in it the CSV, predictions, results an item and what was asked."""

from __future__ import annotations

import importlib
import io
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import BaseModel

import tuneloop
from tuneloop.core.files import damaged, read_bytes, read_model, write_atomic, write_json
from tuneloop.core.score import ItemResult, Score
from tuneloop.tools.benchmark_items.folder import render_prompt
from tuneloop.tools.evaluation.item_sets import ItemSet, set_entry
from tuneloop.tools.evaluation.result_tree import summary_rows
from tuneloop.tools.evaluation.standalone.measure import Measurement
from tuneloop.tools.statistics import claim

# What is told of measurements: scores without items, and how one model differs from another on the same items.


def measurement_facts(one: Measurement) -> dict[str, Any]:
    """One model; never an item."""
    results = [
        {**score.model_dump(mode="json", exclude={"items"}), "errors": scorer_errors(score), "key": one.keys[name]}
        for name, score in one.scores.items()
    ]
    average = fmean(score.value for score in one.scores.values())
    said = {"name": one.subject.name, "model": one.subject.described}
    return {**said, "results": results, "average": average, "notes": list(one.notes)}


def scorer_errors(score: Score) -> int:
    """Items on which the scorer itself failed: wrong, and counted."""
    return sum(bool(item.error) for item in score.items)


def paired_difference(one: Score, other: Score) -> dict[str, Any]:
    """`p_value`: how likely a difference of this size either way would be, were both models equal.

    Raises ValueError when the scores are not of the same items.
    """
    there, back = claim(one, other), claim(other, one)
    verdict = "better" if there.claimed else "worse" if back.claimed else "no difference shown"
    numbers = there.model_dump(include={"gain", "low", "high", "wins", "losses", "p_value"})
    return {"benchmark": one.benchmark, **numbers, "verdict": verdict}


def write_tree(root: Path, found: Sequence[Measurement]) -> Path:
    """`root/<time>/`; returns it. Of a sealed test no item is written. The CSV is the first measurement's, and comes last."""
    stamp = time.strftime("%Y%m%d_%H%M%S")
    place = free_folder(root, stamp)
    for one in found:
        name = one.subject.name
        write_json(place / "configs" / f"{name}.json", configuration_of(one))
        for given in one.sets:
            write_set(place, name, given, one.scores[given.name])
    for number, one in enumerate(found):
        of = f"_{one.subject.name}" if number else ""
        write_atomic(place / "summary" / f"summary_{place.name}{of}.csv", summary_rows(one.scores))
    return place


def free_folder(root: Path, stamp: str) -> Path:
    """A folder of this second that nobody has."""
    for number in range(1, 1000):
        place = root / (stamp if number == 1 else f"{stamp}_{number}")
        try:
            place.mkdir(parents=True)
        except FileExistsError:
            continue
        return place
    raise FileExistsError(root / stamp)


def configuration_of(one: Measurement) -> dict[str, Any]:
    """What was asked, of whom, with what, and under which key: by it anybody can tell whether two results are of one thing."""
    weights = one.subject.weights
    places = {"path": weights.path, "adapter": weights.adapter, "tokenizer": weights.tokenizer} if weights else {}
    asked = [
        {**set_entry(given), "split": given.split, "items": len(given.items), "key": one.keys[given.name]}
        for given in one.sets
    ]
    return {
        "tuneloop": tuneloop.__version__,
        "engine": one.engine,
        "model": one.subject.described,
        **{name: str(place) for name, place in places.items() if place is not None},
        **one.how.facts,
        "sets": asked,
        "notes": list(one.notes),
    }


def write_set(place: Path, model: str, given: ItemSet, score: Score) -> None:
    """A set's score; of an open split also each prompt, reply and verdict."""
    write_json(place / "results" / model / f"{given.name}.json", score.model_dump(mode="json", exclude={"items"}))
    if given.split == "test":
        return
    asked = {item.id: render_prompt(given.benchmark, item) for item in given.items}
    predictions = {
        str(i): {"origin_prompt": asked[r.id], "prediction": r.prediction, "gold": r.answer}
        for i, r in enumerate(score.items)
    }
    write_json(place / "predictions" / model / f"{given.name}.json", predictions)
    write_parquet(place / "results" / model / f"{given.name}.parquet", score.items, asked)


def write_parquet(path: Path, items: Sequence[ItemResult], asked: Mapping[str, str]) -> None:
    """A row an item; `extra` is JSON."""
    # a moment to import, and only who keeps results pays for it; untyped
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    texts = ("id", "group", "cluster", "prompt", "prediction", "parsed", "answer", "error", "extra")
    columns = [*((name, arrow.string()) for name in texts), ("correct", arrow.bool_()), ("value", arrow.float64())]
    rows = [
        {
            **item.model_dump(exclude={"extra"}),
            "prompt": asked[item.id],
            "extra": json.dumps(item.extra, sort_keys=True),
        }
        for item in items
    ]
    sink = arrow.BufferOutputStream()
    parquet.write_table(arrow.Table.from_pylist(rows, schema=arrow.schema(columns)), sink)
    write_atomic(path, sink.getvalue().to_pybytes())


class AskedSet(BaseModel):
    """A set of items, as a configuration names it."""

    name: str
    max_new_tokens: int


class AskedSets(BaseModel):
    """`configs/<model>.json`, as far as it is read again."""

    sets: tuple[AskedSet, ...]


def read_set(place: Path, model: str, name: str) -> tuple[Score, dict[str, str], int]:
    """What was written of a set of an open split: the score with its items, prompts by id, tokens that a reply may have.

    Raises FileNotFoundError, or DamagedFileError.
    """
    parquet: Any = importlib.import_module("pyarrow.parquet")
    table, shape = place / "results" / model / f"{name}.parquet", place / "configs" / f"{model}.json"
    summary = read_model(table.with_suffix(".json"), dict[str, Any])
    try:
        rows = parquet.read_table(io.BytesIO(read_bytes(table))).to_pylist()
        prompts = {row["id"]: row.pop("prompt") for row in rows}
        items = [{**row, "extra": json.loads(row["extra"])} for row in rows]
        score = Score.model_validate({**summary, "items": items})
    except (ValueError, LookupError, TypeError, NotImplementedError) as e:
        raise damaged(table, e) from e
    asked = read_model(shape, AskedSets).sets
    if name not in (one.name for one in asked):
        raise damaged(shape, f"{name} is missing")
    return score, prompts, next(one.max_new_tokens for one in asked if one.name == name)
