"""Evaluations of a run: validation for any experiment, and once, for `finish`, the sealed test of base and best."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuneloop.core.errors import RecipeError
from tuneloop.core.job import JobStatus
from tuneloop.core.score import Score
from tuneloop.tools.backend import choose_backend
from tuneloop.tools.cache import open_cache
from tuneloop.tools.compare import Precision
from tuneloop.tools.delivery import is_adapter
from tuneloop.tools.evaluation import How, ItemSet, Measured, Weights, evaluation_command, item_set, keys_of
from tuneloop.tools.execution import execution_command, with_results
from tuneloop.tools.limits import job_limits
from tuneloop.tools.model_files import take_model
from tuneloop.tools.plan import Plan, read_plan, usable, write_plan
from tuneloop.tools.progress import last_progress
from tuneloop.tools.pruning import check_there
from tuneloop.tools.verdicts import check_replies, read_rows, score_of
from tuneloop.tools.workbench import Workbench, job_report

BASE, MODEL = "base", "model"
JOB, EXECUTE = "evaluate", "execute"


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
    take_model(folder, base)
    if is_adapter(folder.model):
        return Weights(MODEL, base, adapter=folder.model, tokenizer=base)
    return Weights(MODEL, folder.model, tokenizer=base)


def stages(bench: Workbench) -> tuple[str, ...]:
    """Jobs of an evaluation, one after the other: replies that are code are run in a sandbox of their own."""
    return (JOB, EXECUTE) if runs_code(bench) else (JOB,)


def runs_code(bench: Workbench) -> bool:
    """Whether replies to some benchmark are run."""
    return any(folder.benchmark.executed for folder in bench.benchmarks)


def stage(bench: Workbench, where: Path) -> str:
    """The job at hand."""
    done = runs_code(bench) and _good(bench.status(where / "jobs", JOB)[0])
    return EXECUTE if done and bench.status(where / "jobs", EXECUTE)[1] else JOB


def proof(bench: Workbench, where: Path) -> Path | None:
    """The file by which the job at hand will say that it is over; None before a launch."""
    return bench.proof(where / "jobs", stage(bench, where))


def start_evaluation(bench: Workbench, experiment: int) -> str | None:
    """Launch an experiment's evaluation on validation; doing it again changes nothing.

    Where replies are run this is a second job: once the first is over, launching again starts it. Returns the name of
    the job at hand, None when every answer is known from the cache and no job is needed.
    """
    where = place(bench, experiment)
    plan = _launch(bench, where, [weights(bench, experiment)], "validation")
    return stage(bench, where) if plan.missing else None


def evaluation_status(bench: Workbench, experiment: int) -> dict[str, Any]:
    """State of an experiment's evaluation, items done; over without a job when its answers come from the cache."""
    return _status(bench, place(bench, experiment))


def stop_evaluation(bench: Workbench, experiment: int) -> None:
    """End an experiment's evaluation."""
    for name in (JOB, EXECUTE):
        bench.stop(place(bench, experiment) / "jobs", name)


def measured(bench: Workbench, experiment: int) -> list[Score]:
    """Scores of an evaluation that is over, every item verified; the benchmark that decides is the first.

    Raises RecipeError or WorldError.
    """
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
    for name in (JOB, EXECUTE):
        bench.stop(bench.run.final / "jobs", name)


def sealed_scores(bench: Workbench) -> tuple[list[Score], list[Score]]:
    """Test scores of base and best, [] without one; the benchmark that decides first. Raises RecipeError or WorldError."""
    found = _collect(bench, bench.run.final, "test")
    return found[BASE], found.get(MODEL, [])


def precisions(bench: Workbench) -> dict[str, Precision]:
    """Items and clusters of every benchmark's validation, before anything is measured."""
    found = {}
    for given in _sets(bench, "validation"):
        alone = sum(not item.cluster for item in given.items)
        together = len({item.cluster for item in given.items if item.cluster})
        found[given.name] = Precision(len(given.items), alone + together)
    return found


def _sets(bench: Workbench, split: Measured) -> list[ItemSet]:
    limit = bench.spec.benchmark_limit if split == "validation" else None
    return [item_set(folder, split, limit) for folder in bench.benchmarks]


def _how(bench: Workbench, models: list[Weights]) -> How:
    adapters = [model.adapter for model in models if model.adapter]
    backend = choose_backend(bench.settings.eval_backend, bench.engine("opencompass"), bench.setup.device, adapters)
    return How(device="cuda" if bench.setup.device == "cuda" else "cpu", backend=backend, seed=bench.spec.seed)


def _launch(bench: Workbench, where: Path, models: list[Weights], split: Measured) -> Plan:
    engine, cache = bench.engine("opencompass"), open_cache(bench.settings)
    sets, how = _sets(bench, split), _how(bench, models)
    keys = keys_of(engine, models, sets, how, cache.memory)
    where.mkdir(parents=True, exist_ok=True)
    plan = read_plan(where)
    if plan is None or plan.keys != keys or not usable(plan, sets):
        plan = Plan(keys, cache.find(keys, {one.name: one for one in sets}))
        write_plan(where, plan)
    if not plan.missing:
        bench.stop(where / "jobs", JOB)
        return plan
    command = evaluation_command(
        engine,
        models,
        sets,
        where / "work" / JOB,
        how,
        keys=keys,
        without=plan.known,
        limits=job_limits(bench.settings, bench.settings.benchmark_timeout, where),
    )
    # Without base or test scores there is no run: a later sitting tries again. A failed candidate has failed.
    retry = where in (bench.run.baseline, bench.run.final)
    # vLLM wants the GPU for itself from its first import on: it starts cold
    worker = "opencompass" if how.backend == "hf" else ""
    bench.launch(where / "jobs", JOB, command, retry=retry, worker=worker)
    if runs_code(bench) and _good(bench.status(where / "jobs", JOB)[0]):
        _launch_execution(bench, where, plan, {one.name: one for one in sets}, retry=retry)
    return plan


def _launch_execution(bench: Workbench, where: Path, plan: Plan, sets: Mapping[str, ItemSet], *, retry: bool) -> None:
    """Run the code of the replies that the first job left."""
    found = read_rows(where / "work" / JOB, plan.missing)
    rows = {pair: row for pair, row in found.items() if sets[pair[1]].benchmark.executed}
    if not rows:
        return
    for pair, row in rows.items():
        check_replies(row, sets[pair[1]])
    limits = job_limits(bench.settings, bench.settings.benchmark_timeout, where)
    command = execution_command(bench.engine("opencompass"), rows, sets, where / "work" / EXECUTE, limits)
    bench.launch(where / "jobs", EXECUTE, command, retry=retry)


def _status(bench: Workbench, where: Path) -> dict[str, Any]:
    plan = read_plan(where)
    cached = sum(len(row.get("items", ())) for row in plan.known.values()) if plan else 0
    if plan and not plan.missing:
        note = f"{cached} answers from the cache, nothing was launched"
        return job_report(JobStatus(state="over"), done=cached, total=cached, unit="items", note=note)
    status, job = bench.status(where / "jobs", stage(bench, where))
    done, total = last_progress(job / "log.txt") if job else (0, 0)
    note = f"and {cached} from the cache" if cached else ""
    return job_report(status, done=done, total=total, unit="items", note=note)


def _collect(bench: Workbench, where: Path, split: Measured) -> dict[str, list[Score]]:
    plan, sets = read_plan(where), {one.name: one for one in _sets(bench, split)}
    if plan is None:
        raise RecipeError("evaluation failed. never launched", culprit="config")
    rows = dict(plan.known)
    if plan.missing:
        executed = any(sets[name].benchmark.executed for _, name in plan.missing)
        for name in (JOB, EXECUTE) if executed else (JOB,):
            status, job = bench.status(where / "jobs", name)
            if job is None or not _good(status):
                why = bench.why(job, status) if job else "never launched"
                raise RecipeError(f"evaluation failed. {why}", culprit="config")
        fresh = read_rows(where / "work" / JOB, plan.missing)
        run = {pair: row for pair, row in fresh.items() if sets[pair[1]].benchmark.executed}
        rows |= {**fresh, **(with_results(where / "work" / EXECUTE, run) if run else {})}
    scores = {pair: score_of(row, sets[pair[1]]) for pair, row in rows.items()}
    for pair in plan.missing:
        open_cache(bench.settings).write(plan.keys[pair], rows[pair], sets[pair[1]])
    models = dict.fromkeys(model for model, _ in scores)
    return {model: [scores[model, name] for name in sets] for model in models}


def _good(status: JobStatus) -> bool:
    return status.exit is not None and status.exit.ok
