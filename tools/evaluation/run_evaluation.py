"""Evaluations of a run: validation for any experiment, and once, for `finish`, the sealed test of base and best."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tuneloop.core.errors import InfrastructureError, InvalidRequestError, LimitReachedError, RecipeError
from tuneloop.core.files import digest, read_field
from tuneloop.core.job import JobReport
from tuneloop.core.score import Score
from tuneloop.core.untrusted import read_untrusted_json
from tuneloop.tools.benchmark_items.folder import SMALLEST
from tuneloop.tools.contamination.sealed_filter import filter_lines
from tuneloop.tools.contamination.splits import make_guard
from tuneloop.tools.evaluation import jobs
from tuneloop.tools.evaluation.cache import EvaluationPlan, read_plan, write_plan
from tuneloop.tools.evaluation.item_sets import (
    EvaluationConditions,
    ItemSet,
    Measured,
    ModelWeights,
    choose_backend,
    conditions_hash,
    make_item_set,
)
from tuneloop.tools.evaluation.jobs import Evaluation, EvaluationFolder
from tuneloop.tools.housekeeping.pruning import check_there
from tuneloop.tools.jobs.gpu_share import job_gpus
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.llm_proxy.access import Access
from tuneloop.tools.report.timing import job_attempts, job_seconds
from tuneloop.tools.scoring.llm_judge import find_judge
from tuneloop.tools.statistics import Precision
from tuneloop.tools.weights.delivery import is_adapter
from tuneloop.tools.weights.trained_files import accept_model

BASE, MODEL = "base", "model"
GENERATION = "generation.json"  # seconds of each model on each set, written by `engines/opencompass/measure.py`


def evaluation_place(run_tools: RunTools, experiment: int) -> Path:
    """Folder whose `jobs/` and `work/` the evaluation uses; 0 is the untouched model."""
    return run_tools.experiment(experiment).root if experiment else run_tools.run.baseline


def trained_weights(run_tools: RunTools, experiment: int) -> ModelWeights:
    """What an experiment trained. Raises RecipeError when its training is not whole."""
    base = run_tools.setup.model_root
    if not experiment:
        return ModelWeights(BASE, base)
    folder = run_tools.experiment(experiment)
    if not folder.training.is_file():
        raise RecipeError(f"experiment {experiment} has no finished training", culprit="config")
    check_there(folder)
    accept_model(folder, base)
    if is_adapter(folder.model):
        return ModelWeights(MODEL, base, adapter=folder.model, tokenizer=base)
    return ModelWeights(MODEL, folder.model, tokenizer=base)


def evaluation_folder(run_tools: RunTools, where: Path) -> EvaluationFolder:
    """A folder of this run's evaluations. Raises InvalidRequestError where the run's judge is not the one that is set now."""
    return EvaluationFolder(
        run_tools, where, tuple(one.benchmark for one in run_tools.benchmarks), judge_of_run(run_tools)
    )


def judge_of_run(run_tools: RunTools) -> Access | None:
    """The judge that `prepare` found, None: the rule decides alone. One run has one measure. Raises InvalidRequestError."""
    wanted = run_tools.setup.judge
    if not wanted:
        return None
    if run_tools.settings.judge_model != wanted:
        now = run_tools.settings.judge_model or "not set"
        raise InvalidRequestError(
            f"this run's answers are judged by {wanted}, and FT_JUDGE_MODEL is {now}: set it to {wanted}"
        )
    return find_judge(run_tools.settings, [one.benchmark for one in run_tools.benchmarks])


def start_evaluation(run_tools: RunTools, experiment: int) -> str | None:
    """Launch an experiment's evaluation on validation; doing it again changes nothing.

    Where replies are run, or a judge decides, there are further jobs: once one is over, launching again starts the next.
    Returns the name of the job at hand, None when everything is there: nothing is launched for what the cache knows.
    """
    return jobs.advance_evaluation(
        _evaluation(
            run_tools, evaluation_place(run_tools, experiment), [trained_weights(run_tools, experiment)], "validation"
        )
    )


def evaluation_status(run_tools: RunTools, experiment: int) -> JobReport:
    """State of an experiment's evaluation, items done; over without a job when its answers come from the cache."""
    return jobs.evaluation_status(evaluation_folder(run_tools, evaluation_place(run_tools, experiment)))


def stop_evaluation(run_tools: RunTools, experiment: int) -> None:
    """End an experiment's evaluation."""
    jobs.stop_jobs(evaluation_folder(run_tools, evaluation_place(run_tools, experiment)))


def validation_scores(run_tools: RunTools, experiment: int) -> list[Score]:
    """Scores of an evaluation that is over, every item verified; the benchmark that decides is the first.

    Raises RecipeError or InfrastructureError.
    """
    model = trained_weights(run_tools, experiment)
    return _collect(_evaluation(run_tools, evaluation_place(run_tools, experiment), [model], "validation"))[model.name]


def start_probe(run_tools: RunTools) -> None:
    """Launch the untouched model's evaluation on the first items, which tells what one item takes.

    The cache is not asked, for it does not know; it gets the results.
    """
    e = _probe(run_tools)
    plan = read_plan(e.folder.where)
    if plan is None or plan.keys != e.keys:
        e.folder.where.mkdir(parents=True, exist_ok=True)
        write_plan(e.folder.where, EvaluationPlan(e.keys, {}))
    jobs.advance_evaluation(e)


def probe_status(run_tools: RunTools) -> JobReport:
    """State of the probe."""
    return jobs.evaluation_status(evaluation_folder(run_tools, probe_place(run_tools)))


def stop_probe(run_tools: RunTools) -> None:
    """End the probe."""
    jobs.stop_jobs(evaluation_folder(run_tools, probe_place(run_tools)))


def probe_seconds(run_tools: RunTools) -> dict[int, float]:
    """Seconds that one item of each benchmark takes, by its place; models are loaded once and do not count.

    Raises RecipeError or InfrastructureError where the probe went wrong.
    """
    e = _probe(run_tools)
    _collect(e)
    file = e.folder.work(jobs.ANSWER) / GENERATION
    try:
        seconds = {row["set"]: float(row["seconds"]) for row in read_untrusted_json(file)}
        took = [seconds[one.name] for one in e.sets]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InfrastructureError(f"{file} is broken: {error!r}") from error
    later = ("execute.", "judge.")
    others = sum(job_seconds(job) for job in job_attempts(e.folder.jobs) if job.name.startswith(later))
    asked = [len(one.items) // one.benchmark.samples for one in e.sets]  # an item may be asked several times
    return {place: took[place] / count + others / sum(asked) for place, count in enumerate(asked)}


def probe_place(run_tools: RunTools) -> Path:
    """Folder of the probe."""
    return run_tools.run.baseline / "probe"


def _probe(run_tools: RunTools) -> Evaluation:
    return _evaluation(run_tools, probe_place(run_tools), [trained_weights(run_tools, 0)], "validation", SMALLEST)


def measuring_conditions(run_tools: RunTools) -> str:
    """What scores are measured with now: `Score.measured_with` of a score that can be compared with new ones."""
    return conditions_hash(run_tools.engine("opencompass"), evaluation_conditions(run_tools))


def start_sealed(run_tools: RunTools, best: Path | None) -> None:
    """Launch the one reading of the test split: base and, where there is one, best, in one process."""
    jobs.advance_evaluation(_evaluation(run_tools, run_tools.run.final, _finalists(run_tools, best), "test"))


def sealed_status(run_tools: RunTools) -> JobReport:
    """State of the sealed evaluation."""
    return jobs.evaluation_status(evaluation_folder(run_tools, run_tools.run.final))


def stop_sealed(run_tools: RunTools) -> None:
    """End the sealed evaluation."""
    jobs.stop_jobs(evaluation_folder(run_tools, run_tools.run.final))


def sealed_scores(run_tools: RunTools, best: Path | None) -> tuple[list[Score], list[Score]]:
    """Test scores of base and best, [] without one; the benchmark that decides first. Raises RecipeError or InfrastructureError."""
    found = _collect(_evaluation(run_tools, run_tools.run.final, _finalists(run_tools, best), "test"))
    return found[BASE], found.get(MODEL, [])


def sealed_precision(run_tools: RunTools) -> Precision:
    """Items and clusters of the sealed test that decides; nothing else of it leaves this function."""
    return precision_of(make_item_set(run_tools.benchmark, "test"))


def precision_of(one: ItemSet) -> Precision:
    """Items and clusters, before anything is measured."""
    alone = sum(not item.cluster for item in one.items)
    return Precision(len(one.items), alone + len({item.cluster for item in one.items if item.cluster}))


def _finalists(run_tools: RunTools, best: Path | None) -> list[ModelWeights]:
    base = ModelWeights(BASE, run_tools.setup.model_root)
    return [base, ModelWeights(MODEL, best)] if best else [base]


def validation_sets(run_tools: RunTools, limit: int | None) -> list[ItemSet]:
    """At most `limit` validation items of each benchmark, in the order in which every model is measured."""
    return [make_item_set(folder, "validation", limit) for folder in run_tools.benchmarks]


def items_order_hash(one: ItemSet) -> str:
    """Hash of the items' ids, in order."""
    return digest(*(item.id for item in one.items))


def _sets(run_tools: RunTools, split: Measured, limit: int | None) -> list[ItemSet]:
    """Raises InfrastructureError where the validation items are others than those that the run began with."""
    if split == "test":
        return [make_item_set(folder, split) for folder in run_tools.benchmarks]
    found = validation_sets(run_tools, limit)
    if run_tools.run.validation.is_file() and limit == run_tools.validation_limit:
        order = read_field(run_tools.run.validation, "order", dict[str, str])
        for one in found:
            if items_order_hash(one) != order[one.name]:
                raise InfrastructureError(
                    f"{one.name}: its validation items are not those that this run began with: start it anew"
                )
    return found


def evaluation_conditions(run_tools: RunTools) -> EvaluationConditions:
    """The same for every model of a run: one adapter that vLLM cannot serve takes them all to transformers.

    Beside other experiments nobody knows which adapters are still to come, so transformers it is unless vLLM is asked for.
    """
    chosen = run_tools.settings.backend
    if chosen == "auto" and run_tools.spec.parallel > 1:
        chosen = "hf"
    adapters = [file.parent for file in sorted(run_tools.run.experiments.glob("[0-9]*/model/adapter_config.json"))]
    backend = choose_backend(chosen, run_tools.engine("opencompass"), run_tools.setup.device, adapters)
    device: Literal["cpu", "cuda"] = "cuda" if run_tools.setup.device == "cuda" else "cpu"
    return EvaluationConditions(
        device=device,
        backend=backend,
        seed=run_tools.spec.seed,
        files=run_tools.settings.scorer_folder,
        threads=run_tools.threads if device == "cpu" else 1,
        gpus=job_gpus(run_tools.settings, run_tools.spec, device)[0] if backend == "vllm" else 0,
    )


def _evaluation(
    run_tools: RunTools, where: Path, models: list[ModelWeights], split: Measured, limit: int | None = None
) -> Evaluation:
    how = evaluation_conditions(run_tools)
    return Evaluation(
        evaluation_folder(run_tools, where),
        tuple(models),
        tuple(_sets(run_tools, split, limit or run_tools.validation_limit)),
        how,
        # Without base or test scores there is no run: a later session tries again. A failed candidate has failed.
        retry=where in (run_tools.run.baseline, run_tools.run.final, probe_place(run_tools)),
        # vLLM wants the GPU for itself from its first import on: it starts cold
        worker="opencompass" if how.backend == "hf" else "",
    )


def _collect(e: Evaluation) -> dict[str, list[Score]]:
    try:
        scores = jobs.collect_scores(e)
    except (RecipeError, InfrastructureError) as failed:  # a scorer's log may quote items that agents do not see
        text = filter_lines(make_guard(e.run_tools.benchmarks, e.run_tools.validation_limit), str(failed))
        if isinstance(failed, LimitReachedError | InfrastructureError):
            raise type(failed)(text) from failed
        raise RecipeError(text, culprit=failed.culprit) from failed
    return {model.name: [scores[model.name, one.name] for one in e.sets] for model in e.models}
