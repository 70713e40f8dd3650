"""`report.json`: the run's result for scripts; scores are objects `value n low high`, 0-100."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from tuneloop.core.budget import spending_lines
from tuneloop.core.experiment import Experiment
from tuneloop.core.prices import load_price_list
from tuneloop.core.score import Score
from tuneloop.tools.report.data import FurtherBenchmark, ReportData, RunFacts, overlap_counts
from tuneloop.tools.report.turns import NodeTime


def report_facts(run_id: str, data: ReportData) -> dict[str, Any]:
    """The content of `report.json`, plain JSON values."""
    return {
        **run_facts(run_id, data),
        "metric": data.benchmark.metric,
        "direction": data.benchmark.direction,
        "baseline": {"validation": score_facts(data.baseline_validation), "test": score_facts(data.baseline_test)},
        "best": {
            "experiment": data.number,
            "training": data.candidates.chosen.training if data.candidates.chosen else None,
            "delivered": data.delivered,
            "claimed": data.claimed,
            "validation": score_facts(data.best_validation),
            "test": score_facts(data.best_test),
        },
        "claim": {**data.claim.model_dump(), "claimed": data.claimed} if data.claim else None,
        "smallest_gain": data.smallest_gain,
        "halves": data.halves.model_dump() if data.halves else None,
        "trainings": {str(number): list(values) for number, values in data.candidates.values.items()},
        "guards_test": [check.model_dump() for check in data.guards_test],
        "opening": data.opening,
        "forked_from": fork_facts(data),
        "contamination": {str(number): overlap_counts(report) for number, report in sorted(data.data.items())},
        "raw_overlaps": data.raw_overlaps,
        "refused_overlaps": {str(number): rows for number, rows in data.refused.items()},
        "also": [further_facts(one) for one in data.also],
        "average": benchmark_averages(data),
    }


def run_facts(run_id: str, data: RunFacts) -> dict[str, Any]:
    """What every report tells."""
    return {
        "run_id": run_id,
        "benchmark": data.benchmark.name,
        "evaluated": data.spec.evaluated,
        "base_model": data.base_model,
        "model_choice": data.model_choice.model_dump(mode="json") if data.model_choice else None,
        "experiments": [experiment_facts(e) for e in data.journal.experiments],
        "budget": budget_facts(data),
        "versions": data.versions,
        "seeds": data.seeds,
        "sandbox": data.sandbox,
        "planner": data.planner,
        "stopped": data.stopped,
        "warnings": {str(number): list(found) for number, found in data.warnings.items()},
        "calls": {job: asked.model_dump() for job, asked in data.calls.items()},
        "answers": data.answers,
    }


def fork_facts(data: ReportData) -> dict[str, Any] | None:
    """What it stands on."""
    return {"run": data.fork.run, "at": data.fork.at, "opened": data.lineage_opened} if data.fork else None


def further_facts(one: FurtherBenchmark) -> dict[str, Any]:
    """A further benchmark."""
    return {
        "benchmark": one.benchmark,
        "baseline": {"validation": score_facts(one.baseline_validation), "test": score_facts(one.baseline_test)},
        "best": {"validation": score_facts(one.best_validation), "test": score_facts(one.best_test)},
    }


def benchmark_averages(data: ReportData) -> dict[str, float] | None:
    """Plain means over all benchmarks, where there are several."""
    if not data.also:
        return None
    columns: dict[str, list[Score | None]] = {
        "baseline_validation": [data.baseline_validation, *(one.baseline_validation for one in data.also)],
        "baseline_test": [data.baseline_test, *(one.baseline_test for one in data.also)],
        "best_validation": [data.best_validation, *(one.best_validation for one in data.also)],
        "best_test": [data.best_test, *(one.best_test for one in data.also)],
    }
    return {name: fmean(s.value for s in scores if s) for name, scores in columns.items() if all(scores)}


def score_facts(score: Score | None) -> dict[str, float] | None:
    """A score without its items."""
    if score is None:
        return None
    return {"value": score.value, "n": score.n, "low": score.low, "high": score.high}


def experiment_facts(e: Experiment) -> dict[str, Any]:
    """One experiment; `validation` is null when it failed."""
    comparison = e.feedback.comparison
    return {
        "number": e.number,
        "outcome": e.outcome,
        "validation": score_facts(e.score),
        "hypothesis": e.hypothesis.statement,
        "aspect": e.hypothesis.aspect,
        "comparison": comparison.model_dump() if comparison else None,
        "guards": [check.model_dump() for check in e.feedback.guards],
        "reasons": list(e.feedback.reasons),
        "lesson": e.feedback.critique.lesson,
        "failure": e.failure.model_dump() if e.failure else None,
        "training": e.training.model_dump(mode="json") if e.training else None,
        "repairs": e.repairs,
        "seconds": e.seconds,
    }


def budget_facts(data: RunFacts) -> dict[str, Any]:
    """What was allowed and what was spent."""
    return {
        "seconds": round(data.seconds, 1),
        "timeout": data.limits.seconds,
        "experiments": len(data.journal.experiments),
        "loop_n": data.loop_n,
        "nodes": {part.node: round(part.seconds, 1) for part in data.nodes},
        "times": [_rounded(part) for part in data.times],
        "spent": spending_facts(data),
    }


def spending_facts(data: RunFacts) -> dict[str, Any]:
    """Spent, limit and left of time, GPU-hours, tokens and money; bytes of disk; what was asked of each model by whom."""
    rows = {str(line.kind): (line.spent, line.limit, line.left) for line in spending_lines(data.spent, data.limits)}
    return {
        **{kind: dict(zip(("spent", "limit", "left"), row, strict=True)) for kind, row in rows.items()},
        "disk": data.spent.disk,
        "unpriced": list(data.spent.unpriced),
        "models": [use.model_dump(mode="json") for use in data.models],
        "prices_of": load_price_list().date,
    }


def _rounded(part: NodeTime) -> dict[str, Any]:
    return {name: round(v, 2) if isinstance(v, float) else v for name, v in part.model_dump().items()}
