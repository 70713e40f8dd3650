"""Several runs side by side: what each brought, and how far two models differ on the same items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuneloop.core.layout import RunFolder
from tuneloop.core.score import Score
from tuneloop.tools.report.report_file import read_report
from tuneloop.tools.runs.journal import baseline_score, experiment_score, load_journal
from tuneloop.tools.runs.status import run_status, score_facts
from tuneloop.tools.statistics import compare


def compare_runs(runs: Sequence[RunFolder]) -> dict[str, Any]:
    """A row for each run, and of each later one a paired comparison with the first on the same validation items."""
    first, *others = runs
    return {"runs": [run_row(run) for run in runs], "against_first": [paired_with_first(run, first) for run in others]}


def run_row(run: RunFolder) -> dict[str, Any]:
    """One run; `test` is there when it is finished."""
    status = run_status(run)
    report = read_report(run) if run.report_json.is_file() else None
    test = {"baseline": report["baseline"]["test"], "best": report["best"]["test"]} if report else None
    return {
        "run": run.id,
        "state": status.state,
        "benchmark": status.benchmark,
        "base_model": status.base_model,
        "experiments": len(status.journal.experiments),
        "failed": status.journal.failed,
        "seconds": round(sum(e.seconds for e in status.journal.experiments), 1),
        "validation": {
            "baseline": score_facts(status.baseline),
            "best": score_facts(status.best.score) if status.best else None,
            "experiment": status.best.number if status.best else None,
        },
        "test": test,
    }


def paired_with_first(run: RunFolder, first: RunFolder) -> dict[str, Any]:
    """The run's best model against the first's, item by item; `note` says why where they cannot be compared."""
    pair = best_score(run), best_score(first)
    names = {"run": run.id, "against": first.id}
    if pair[0] is None or pair[1] is None:
        lacking = run if pair[0] is None else first
        return {**names, "comparison": None, "note": f"run {lacking.id} has measured nothing yet"}
    try:
        found = compare(pair[0], pair[1])
    except ValueError as e:
        return {**names, "comparison": None, "note": f"cannot be compared: {e}"}
    return {**names, "comparison": found.model_dump(mode="json"), "note": ""}


def best_score(run: RunFolder) -> Score | None:
    """Per item, of the run's best model; of the untouched one where nothing was better."""
    best = load_journal(run).best
    if best is None and baseline_score(run) is None:
        return None
    return experiment_score(run, best.number if best else 0)
