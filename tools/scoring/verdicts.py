"""Scores out of an engine's results: every answer is scored again here, and a difference is an error."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from tuneloop.core.catalog import Benchmark, Direction, Item
from tuneloop.core.errors import InfrastructureError, RecipeError
from tuneloop.core.score import GroupScore, ItemResult, JudgeCounts, Score
from tuneloop.core.untrusted import read_untrusted_json
from tuneloop.tools.benchmark_items.folder import render_prompt
from tuneloop.tools.evaluation.item_sets import ItemSet, Pair
from tuneloop.tools.scoring import code_results, llm_judge, scorer
from tuneloop.tools.scoring.scorer_loader import Verdict, checked
from tuneloop.tools.statistics import interval

RESULTS = "results.json"
VERDICT = ("parsed", "value", "extra", "error")
LONGEST_TOKEN = 256  # characters
Row = dict[str, Any]


def read_rows(out: Path, wanted: Collection[Pair] | None = None) -> dict[Pair, Row]:
    """The engine's raw results by (model, set), exactly the `wanted` ones.

    Raises RecipeError when nothing was measured, InfrastructureError when the engine measured something else than was asked.
    """
    try:
        results = read_untrusted_json(out / RESULTS)["results"]
        rows = {(str(row["model"]), str(row["set"])): dict(row) for row in results}
    except FileNotFoundError as e:
        raise RecipeError(f"the evaluation left no {RESULTS} in {out}", culprit="config") from e
    except (ValueError, LookupError, TypeError) as e:
        raise InfrastructureError(f"{out / RESULTS} is broken: {e}") from e
    if len(rows) != len(results) or (wanted is not None and rows.keys() != set(wanted)):
        asked = "each pair once" if wanted is None else ", ".join(f"{m} on {s}" for m, s in sorted(wanted))
        raise InfrastructureError(
            f"{out / RESULTS} has {', '.join(f'{m} on {s}' for m, s in sorted(rows))}; right is {asked}"
        )
    return rows


def check_replies(row: Row, given: ItemSet) -> None:
    """Raises InfrastructureError unless there is one text for each item: before replies are run."""
    try:
        items = [{**item, "results": None} for item in row["items"]]
    except (LookupError, TypeError) as e:
        raise InfrastructureError(f"replies on {given.name} are broken: {e!r}"[:500]) from e
    make_score({**row, "items": items}, given)


def make_score(row: Row, given: ItemSet) -> Score:
    """The score of one model on one set. Raises InfrastructureError when it is not what was asked."""
    try:
        return _score(row, given)
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as e:
        raise InfrastructureError(f"results on {given.name} are broken: {e!r}"[:500]) from e


def _score(row: Row, given: ItemSet) -> Score:
    ruled = _results(row, given.items, given.benchmark)
    benchmark = given.benchmark
    mean = fmean(result.value for result in ruled)
    told = 100 * mean if benchmark.executed else row["accuracy"]  # of what is run only we make a verdict
    if not math.isfinite(told) or abs(told - 100 * mean) > 1e-6:
        raise InfrastructureError(
            f"{given.name}: the engine reports {row['accuracy']} %, its items give {100 * mean} %"
        )
    results, judged = _apply_judge(row, ruled, given)
    counted = [r.value if benchmark.direction == "max" else 1 - r.value for r in results]
    low, high = interval(counted, [r.cluster for r in results])
    return Score(
        benchmark=benchmark.name,
        split=given.split,
        metric=benchmark.metric,
        direction=benchmark.direction,
        value=mean_percent(counted),
        low=low,
        high=high,
        n=len(results),
        parsed=mean_percent([result.parsed is not None for result in results]),
        truncated=row.get("truncated", 0),
        metrics=_metrics(row, ruled, benchmark),
        groups=_groups(results, counted),
        judged=judged,
        items=tuple(result for result in results if result.id not in given.unseen),
        unseen=tuple(result for result in results if result.id in given.unseen),
    )


def _apply_judge(
    row: Row, results: tuple[ItemResult, ...], given: ItemSet
) -> tuple[tuple[ItemResult, ...], JudgeCounts | None]:
    """The results with the judge's verdicts on the items that it was asked about; it makes none worse."""
    said = {item["id"]: item["judge"] for item in row["items"] if "judge" in item}
    if not said:
        return results, None
    if not given.benchmark.judge:
        raise InfrastructureError(f"{given.name}: a judge has decided, and the benchmark wants none")
    heard = {
        result.id: llm_judge.parse_verdict(
            said[result.id],
            llm_judge.verdict_code(render_prompt(given.benchmark, item), item.answer, result.prediction),
        )
        for item, result in zip(given.items, results, strict=True)
        if result.id in said and result.value < 1
    }
    found = tuple(_with_judge_verdict(result, heard[result.id]) if result.id in heard else result for result in results)
    words = list(heard.values())
    return found, JudgeCounts(asked=len(words), correct=words.count("correct"), unknown=words.count(None))


def _with_judge_verdict(result: ItemResult, word: llm_judge.Verdict | None) -> ItemResult:
    extra = {**result.extra, "judge": word or "unknown"}
    if word != "correct":
        return result.model_copy(update={"extra": extra})
    parsed = result.answer if result.parsed is None else result.parsed
    return result.model_copy(update={"extra": extra, "value": 1.0, "correct": True, "parsed": parsed})


def mean_percent(values: Sequence[float]) -> float:
    """Their mean, in percent; never above 100 by rounding."""
    return min(100.0, 100 * fmean(values))


def _metrics(row: Row, results: Sequence[ItemResult], benchmark: Benchmark) -> dict[str, float]:
    if benchmark.executed:
        return code_results.execution_summary([result.extra for result in results])
    if scorer.is_judged_here(benchmark):
        return scorer.summarize_verdicts(benchmark, [_verdict_of(result) for result in results])
    found = {str(name): float(value) for name, value in row["metrics"].items()}
    if not all(map(math.isfinite, found.values())):
        raise InfrastructureError(f"{benchmark.name}: the engine reports {found}; right are finite numbers")
    return found


def group_scores(results: Sequence[ItemResult], direction: Direction) -> dict[str, GroupScore]:
    """Scores of the groups of some items; of all items' groups an agent could tell the verdict on one it does not see."""
    return _groups(results, [r.value if direction == "max" else 1 - r.value for r in results])


def _groups(results: Sequence[ItemResult], counted: Sequence[float]) -> dict[str, GroupScore]:
    names = dict.fromkeys(result.group for result in results)
    if len(names) < 2:
        return {}
    rows = list(zip(results, counted, strict=True))
    return {name: _group([(r, value) for r, value in rows if r.group == name]) for name in sorted(names)}


def _group(rows: Sequence[tuple[ItemResult, float]]) -> GroupScore:
    parsed = mean_percent([result.parsed is not None for result, _ in rows])
    return GroupScore(value=mean_percent([value for _, value in rows]), n=len(rows), parsed=parsed)


def _results(row: Row, asked: Sequence[Item], benchmark: Benchmark) -> tuple[ItemResult, ...]:
    found = {item["id"]: item for item in row["items"]}
    wanted = {item.id for item in asked}
    for kind, ids in (("missing", wanted - found.keys()), ("foreign", found.keys() - wanted)):
        if ids:
            raise InfrastructureError(
                f"{benchmark.name}: {len(ids)} {kind} items in the engine's results, e.g. {min(ids)}"
            )
    if len(row["items"]) != len(asked):
        raise InfrastructureError(f"{benchmark.name}: {len(row['items'])} results for {len(asked)} items")
    return tuple(_result(benchmark, item, found[item.id]) for item in asked)


def _result(benchmark: Benchmark, item: Item, row: Row) -> ItemResult:
    text = row["prediction"]
    if not isinstance(text, str):
        raise InfrastructureError(f"item {item.id}: the engine's answer is no text but {type(text).__name__}")
    if len(text) > LONGEST_TOKEN * benchmark.max_new_tokens:
        raise InfrastructureError(
            f"item {item.id}: the engine's answer has {len(text)} characters, more than tokens can have"
        )
    if benchmark.verified:
        value, raised = code_results.judge_verified(row["results"])
        extra = {"raised": raised} if raised else {}
        verdict: Verdict = {
            "parsed": code_results.verified_answer(text),
            "value": value,
            "extra": extra,
            "error": "",
        }
    elif benchmark.executed:
        parsed, right = code_results.judge_results(item.answer, row["results"])
        has_code = code_results.reply_code(item, text) is not None
        extra = code_results.execution_facts(item.answer, row["results"], has_code=has_code)
        verdict = {"parsed": parsed, "value": float(right), "extra": extra, "error": ""}
    else:
        verdict = {name: row[name] for name in VERDICT}
        if scorer.is_judged_here(benchmark):
            _check_verdict(item, verdict, scorer.judge_reply(benchmark, item.answer, text))
        checked(verdict)
        if row["answer"] != item.answer:
            raise InfrastructureError(f"item {item.id}: the engine's verdict is about another answer than the item's")
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
        raise InfrastructureError(f"item {item.id}: the engine's verdict differs from ours in {differ}")


def _verdict_of(result: ItemResult) -> Verdict:
    return result.model_dump(include=set(VERDICT))
