"""Evaluations of a run: validation for any experiment, and once, for `finish`, the sealed test of base and best."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuneloop.core.errors import RecipeError
from tuneloop.core.job import JobStatus
from tuneloop.core.score import Score
from tuneloop.tools.delivery import is_adapter
from tuneloop.tools.evaluation import Measured, Weights, collect, evaluation_command, evaluation_items
from tuneloop.tools.limits import job_limits
from tuneloop.tools.progress import last_progress
from tuneloop.tools.pruning import check_there
from tuneloop.tools.workbench import Workbench, job_report

BASE, MODEL = "base", "model"


def place(bench: Workbench, experiment: int) -> Path:
    """Folder whose `jobs/` and `work/` the evaluation uses; 0 is the untouched model."""
    return bench.experiment(experiment).root if experiment else bench.run.baseline


def weights(bench: Workbench, experiment: int) -> Weights:
    """What an experiment trained. Raises RecipeError when its training is not whole."""
    base = bench.setup.model_root
    if not experiment:
        return Weights(BASE, base)
    folder = bench.experiment(experiment)
    if not folder.training.is_file():
        raise RecipeError(f"experiment {experiment} has no finished training", culprit="config")
    check_there(folder)
    if is_adapter(folder.model):
        return Weights(MODEL, base, adapter=folder.model, tokenizer=base)
    return Weights(MODEL, folder.model, tokenizer=base)


def _launch(bench: Workbench, where: Path, models: list[Weights], split: Measured) -> None:
    limit = bench.spec.benchmark_limit if split == "validation" else None
    where.mkdir(parents=True, exist_ok=True)
    command = evaluation_command(
        bench.engine("opencompass"),
        models,
        bench.benchmark,
        split,
        where / "work" / "evaluate",
        device="cuda" if bench.setup.device == "cuda" else "cpu",
        limit=limit,
        seed=bench.spec.seed,
        limits=job_limits(bench.settings, bench.settings.benchmark_timeout, where),
    )
    # Without base or test scores there is no run: a later sitting tries again. A failed candidate has failed.
    retry = where in (bench.run.baseline, bench.run.final)
    bench.launch(where / "jobs", "evaluate", command, retry=retry, worker="opencompass")


def start_evaluation(bench: Workbench, experiment: int) -> str:
    """Launch an experiment's evaluation on validation; returns the job's name. Doing it again changes nothing."""
    _launch(bench, place(bench, experiment), [weights(bench, experiment)], "validation")
    return "evaluate"


def evaluation_status(bench: Workbench, experiment: int) -> dict[str, Any]:
    """State of an experiment's evaluation, items done."""
    return _status(bench, place(bench, experiment))


def stop_evaluation(bench: Workbench, experiment: int) -> None:
    """End an experiment's evaluation."""
    bench.stop(place(bench, experiment) / "jobs", "evaluate")


def measured(bench: Workbench, experiment: int) -> Score:
    """The score of an evaluation that is over, every item verified. Raises RecipeError or WorldError."""
    found = _collect(bench, place(bench, experiment), "validation")
    return found[MODEL if experiment else BASE]


def start_sealed(bench: Workbench, best: Path | None) -> None:
    """Launch the one reading of the test split: base and, where there is one, best, in one process."""
    models = [Weights(BASE, bench.setup.model_root)]
    _launch(bench, bench.run.final, [*models, Weights(MODEL, best)] if best else models, "test")


def sealed_status(bench: Workbench) -> dict[str, Any]:
    """State of the sealed evaluation."""
    return _status(bench, bench.run.final)


def stop_sealed(bench: Workbench) -> None:
    """End the sealed evaluation."""
    bench.stop(bench.run.final / "jobs", "evaluate")


def sealed_scores(bench: Workbench) -> tuple[Score, Score | None]:
    """Test scores of base and best. Raises RecipeError or WorldError."""
    found = _collect(bench, bench.run.final, "test")
    return found[BASE], found.get(MODEL)


def _status(bench: Workbench, where: Path) -> dict[str, Any]:
    status, job = bench.status(where / "jobs", "evaluate")
    done, total = last_progress(job / "log.txt") if job else (0, 0)
    return job_report(status, done=done, total=total, unit="items")


def _collect(bench: Workbench, where: Path, split: Measured) -> dict[str, Score]:
    status, job = bench.status(where / "jobs", "evaluate")
    if job is None or not _good(status):
        raise RecipeError(f"evaluation failed. {bench.why(job, status) if job else 'never launched'}", culprit="config")
    limit = bench.spec.benchmark_limit if split == "validation" else None
    asked = evaluation_items(bench.benchmark, split, limit)
    return collect(where / "work" / "evaluate", asked, bench.setup.benchmark, split)


def _good(status: JobStatus) -> bool:
    return status.exit is not None and status.exit.ok
