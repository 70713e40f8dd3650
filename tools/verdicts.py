"""Scores out of an engine's results: every answer is scored again here, and a difference is an error."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from tuneloop.core.benchmark import Benchmark, Direction, Item
from tuneloop.core.errors import RecipeError, WorldError
from tuneloop.core.score import GroupScore, ItemResult, Judged, Score
from tuneloop.core.untrusted import read_strange_json
from tuneloop.tools import judge
from tuneloop.tools.benchmarks import executed, prompt, scorer
from tuneloop.tools.benchmarks.judging import Verdict, checked
from tuneloop.tools.compare import interval
from tuneloop.tools.evaluation import ItemSet, Pair

RESULTS = "results.json"
VERDICT = ("parsed", "value", "extra", "error")
LONGEST_TOKEN = 256  # characters
Row = dict[str, Any]


def collect(out: Path, sets: Sequence[ItemSet]) -> dict[Pair, Score]:
    """Scores by (model, set) of everything that the job in `out` measured.

    Raises RecipeError when nothing was measured, WorldError when the engine measured something else than was asked.
    """
    known = {given.name: given for given in sets}
    rows = read_rows(out)
    if foreign := {name for _, name in rows} - known.keys():
        raise WorldError(f"{out / RESULTS} has results on {min(foreign)}, which nobody asked for")
    return {pair: score_of(row, known[pair[1]]) for pair, row in rows.items()}


def read_rows(out: Path, wanted: Collection[Pair] | None = None) -> dict[Pair, Row]:
    """The engine's raw results by (model, set), exactly the `wanted` ones. Raises as `collect`."""
    try:
        results = read_strange_json(out / RESULTS)["results"]
        rows = {(str(row["model"]), str(row["set"])): dict(row) for row in results}
    except FileNotFoundError as e:
        raise RecipeError(f"the evaluation left no {RESULTS} in {out}", culprit="config") from e
    except (ValueError, LookupError, TypeError) as e:
        raise WorldError(f"{out / RESULTS} is broken: {e}") from e
    if len(rows) != len(results) or (wanted is not None and rows.keys() != set(wanted)):
        asked = "each pair once" if wanted is None else ", ".join(f"{m} on {s}" for m, s in sorted(wanted))
        raise WorldError(f"{out / RESULTS} has {', '.join(f'{m} on {s}' for m, s in sorted(rows))}; right is {asked}")
    return rows


def check_replies(row: Row, given: ItemSet) -> None:
    """Raises WorldError unless there is one text for each item: before replies are run."""
    try:
        items = [{**item, "results": None} for item in row["items"]]
    except (LookupError, TypeError) as e:
        raise WorldError(f"replies on {given.name} are broken: {e!r}"[:500]) from e
    score_of({**row, "items": items}, given)


def score_of(row: Row, given: ItemSet) -> Score:
    """The score of one model on one set. Raises WorldError when it is not what was asked."""
    try:
        return _score(row, given)
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as e:
        raise WorldError(f"results on {given.name} are broken: {e!r}"[:500]) from e


def _score(row: Row, given: ItemSet) -> Score:
    ruled = _results(row, given.items, given.benchmark)
    benchmark = given.benchmark
    mean = fmean(result.value for result in ruled)
    told = 100 * mean if benchmark.executed else row["accuracy"]  # of what is run only we make a verdict
    if not math.isfinite(told) or abs(told - 100 * mean) > 1e-6:
        raise WorldError(f"{given.name}: the engine reports {row['accuracy']} %, its items give {100 * mean} %")
    results, judged = _judged(row, ruled, given)
    counted = [r.value if benchmark.direction == "max" else 1 - r.value for r in results]
    low, high = interval(counted, [r.cluster for r in results])
    return Score(
        benchmark=benchmark.name,
        split=given.split,
        metric=benchmark.metric,
        direction=benchmark.direction,
        value=percent(counted),
        low=low,
        high=high,
        n=len(results),
        parsed=percent([result.parsed is not None for result in results]),
        truncated=row.get("truncated", 0),
        metrics=_metrics(row, ruled, benchmark),
        groups=_groups(results, counted),
        judged=judged,
        items=tuple(result for result in results if result.id not in given.unseen),
        unseen=tuple(result for result in results if result.id in given.unseen),
    )


def _judged(row: Row, results: tuple[ItemResult, ...], given: ItemSet) -> tuple[tuple[ItemResult, ...], Judged | None]:
    """The results with the judge's word on those that he was asked about; he makes none worse."""
    said = {item["id"]: item["judge"] for item in row["items"] if "judge" in item}
    if not said:
        return results, None
    if not given.benchmark.judge:
        raise WorldError(f"{given.name}: a judge has decided, and the benchmark wants none")
    heard = {
        result.id: judge.verdict(
            said[result.id], judge.code_of(prompt(given.benchmark, item), item.answer, result.prediction)
        )
        for item, result in zip(given.items, results, strict=True)
        if result.id in said and result.value < 1
    }
    found = tuple(_with(result, heard[result.id]) if result.id in heard else result for result in results)
    words = list(heard.values())
    return found, Judged(asked=len(words), correct=words.count("correct"), unknown=words.count(None))


def _with(result: ItemResult, word: judge.Verdict | None) -> ItemResult:
    extra = {**result.extra, "judge": word or "unknown"}
    if word != "correct":
        return result.model_copy(update={"extra": extra})
    parsed = result.answer if result.parsed is None else result.parsed
    return result.model_copy(update={"extra": extra, "value": 1.0, "correct": True, "parsed": parsed})


def percent(values: Sequence[float]) -> float:
    """Their mean, in percent; never above 100 by rounding."""
    return min(100.0, 100 * fmean(values))


def _metrics(row: Row, results: Sequence[ItemResult], benchmark: Benchmark) -> dict[str, float]:
    if benchmark.executed:
        return executed.summary([result.extra for result in results])
    if scorer.judged_here(benchmark):
        return scorer.summary(benchmark, [_verdict_of(result) for result in results])
    found = {str(name): float(value) for name, value in row["metrics"].items()}
    if not all(map(math.isfinite, found.values())):
        raise WorldError(f"{benchmark.name}: the engine reports {found}; right are finite numbers")
    return found


def groups_of(results: Sequence[ItemResult], direction: Direction) -> dict[str, GroupScore]:
    """Scores of the groups of some items; of all items' groups an agent could tell the verdict on one it does not see."""
    return _groups(results, [r.value if direction == "max" else 1 - r.value for r in results])


def _groups(results: Sequence[ItemResult], counted: Sequence[float]) -> dict[str, GroupScore]:
    names = dict.fromkeys(result.group for result in results)
    if len(names) < 2:
        return {}
    rows = list(zip(results, counted, strict=True))
    return {name: _group([(r, value) for r, value in rows if r.group == name]) for name in sorted(names)}


def _group(rows: Sequence[tuple[ItemResult, float]]) -> GroupScore:
    parsed = percent([result.parsed is not None for result, _ in rows])
    return GroupScore(value=percent([value for _, value in rows]), n=len(rows), parsed=parsed)


def _results(row: Row, asked: Sequence[Item], benchmark: Benchmark) -> tuple[ItemResult, ...]:
    found = {item["id"]: item for item in row["items"]}
    wanted = {item.id for item in asked}
    for kind, ids in (("missing", wanted - found.keys()), ("foreign", found.keys() - wanted)):
        if ids:
            raise WorldError(f"{benchmark.name}: {len(ids)} {kind} items in the engine's results, e.g. {min(ids)}")
    if len(row["items"]) != len(asked):
        raise WorldError(f"{benchmark.name}: {len(row['items'])} results for {len(asked)} items")
    return tuple(_result(benchmark, item, found[item.id]) for item in asked)


def _result(benchmark: Benchmark, item: Item, row: Row) -> ItemResult:
    text = row["prediction"]
    if not isinstance(text, str):
        raise WorldError(f"item {item.id}: the engine's answer is no text but {type(text).__name__}")
    if len(text) > LONGEST_TOKEN * benchmark.max_new_tokens:
        raise WorldError(f"item {item.id}: the engine's answer has {len(text)} characters, more than tokens can have")
    if benchmark.executed:
        parsed, right = executed.judge(item.answer, row["results"])
        has_code = executed.code_of(item, text) is not None
        extra = executed.facts(item.answer, row["results"], has_code=has_code)
        verdict: Verdict = {"parsed": parsed, "value": float(right), "extra": extra, "error": ""}
    else:
        verdict = {name: row[name] for name in VERDICT}
        if scorer.judged_here(benchmark):
            _check_verdict(item, verdict, scorer.judge(benchmark, item.answer, text))
        checked(verdict)
        if row["answer"] != item.answer:
            raise WorldError(f"item {item.id}: the engine's verdict is about another answer than the item's")
    return ItemResult(
        id=item.id,
        prediction=text,
        answer=item.answer,
        correct=verdict["value"] == 1,
        group=item.group,
        cluster=item.cluster,
        **verdict,
    )


def _check_verdict(item: Item, said: Verdict, ours: Verdict) -> None:
    if said != json.loads(json.dumps(ours)):
        differ = ", ".join(name for name in VERDICT if said[name] != ours[name])
        raise WorldError(f"item {item.id}: the engine's verdict differs from ours in {differ}")


def _verdict_of(result: ItemResult) -> Verdict:
    return result.model_dump(include=set(VERDICT))
