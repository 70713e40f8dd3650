"""Evaluations of a run: validation for any experiment, and once, for `finish`, the sealed test of base and best."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from tuneloop.core.errors import LimitReachedError, RecipeError, SetupError, WorldError
from tuneloop.core.files import digest, read_json
from tuneloop.core.score import Score
from tuneloop.core.untrusted import read_strange_json
from tuneloop.tools import pipeline
from tuneloop.tools.backend import choose_backend
from tuneloop.tools.benchmarks.sizes import SMALLEST
from tuneloop.tools.compare import Precision
from tuneloop.tools.contamination.splits import guard_of
from tuneloop.tools.contamination.withheld import open_lines
from tuneloop.tools.delivery import is_adapter
from tuneloop.tools.evaluation import How, ItemSet, Measured, Weights, conditions, item_set
from tuneloop.tools.judge import find_judge
from tuneloop.tools.llm_proxy.access import Access
from tuneloop.tools.model_files import take_model
from tuneloop.tools.pipeline import Evaluation, Folder
from tuneloop.tools.plan import Plan, read_plan, write_plan
from tuneloop.tools.pruning import check_there
from tuneloop.tools.report.timing import attempts, job_seconds
from tuneloop.tools.workbench import Workbench

BASE, MODEL = "base", "model"
GENERATION = "generation.json"  # seconds of each model on each set, written by `engines/opencompass/measure.py`


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


def folder(bench: Workbench, where: Path) -> Folder:
    """A folder of this run's evaluations. Raises SetupError where the run's judge is not the one that is set now."""
    return Folder(bench, where, tuple(one.benchmark for one in bench.benchmarks), run_judge(bench))


def run_judge(bench: Workbench) -> Access | None:
    """The judge that `prepare` found, None: the rule decides alone. One run has one measure. Raises SetupError."""
    wanted = bench.setup.judge
    if not wanted:
        return None
    if bench.settings.judge_model != wanted:
        now = bench.settings.judge_model or "not set"
        raise SetupError(f"this run's answers are judged by {wanted}, and FT_JUDGE_MODEL is {now}: set it to {wanted}")
    return find_judge(bench.settings, [one.benchmark for one in bench.benchmarks])


def start_evaluation(bench: Workbench, experiment: int) -> str | None:
    """Launch an experiment's evaluation on validation; doing it again changes nothing.

    Where replies are run, or a judge decides, there are further jobs: once one is over, launching again starts the next.
    Returns the name of the job at hand, None when everything is there: nothing is launched for what the cache knows.
    """
    return pipeline.advance(_evaluation(bench, place(bench, experiment), [weights(bench, experiment)], "validation"))


def evaluation_status(bench: Workbench, experiment: int) -> dict[str, Any]:
    """State of an experiment's evaluation, items done; over without a job when its answers come from the cache."""
    return pipeline.status(folder(bench, place(bench, experiment)))


def stop_evaluation(bench: Workbench, experiment: int) -> None:
    """End an experiment's evaluation."""
    pipeline.stop(folder(bench, place(bench, experiment)))


def measured(bench: Workbench, experiment: int) -> list[Score]:
    """Scores of an evaluation that is over, every item verified; the benchmark that decides is the first.

    Raises RecipeError or WorldError.
    """
    model = weights(bench, experiment)
    return _collect(_evaluation(bench, place(bench, experiment), [model], "validation"))[model.name]


def start_probe(bench: Workbench) -> None:
    """Launch the untouched model's evaluation on the first items, which tells what one item takes.

    The cache is not asked, for it does not know; it gets the results.
    """
    e = _probe(bench)
    plan = read_plan(e.folder.where)
    if plan is None or plan.keys != e.keys:
        e.folder.where.mkdir(parents=True, exist_ok=True)
        write_plan(e.folder.where, Plan(e.keys, {}))
    pipeline.advance(e)


def probe_status(bench: Workbench) -> dict[str, Any]:
    """State of the probe."""
    return pipeline.status(folder(bench, probe_place(bench)))


def stop_probe(bench: Workbench) -> None:
    """End the probe."""
    pipeline.stop(folder(bench, probe_place(bench)))


def probed(bench: Workbench) -> dict[int, float]:
    """Seconds that one item of each benchmark takes, by its place; models are loaded once and do not count.

    Raises RecipeError or WorldError where the probe went wrong.
    """
    e = _probe(bench)
    _collect(e)
    file = e.folder.work(pipeline.ANSWER) / GENERATION
    try:
        seconds = {row["set"]: float(row["seconds"]) for row in read_strange_json(file)}
        took = [seconds[one.name] for one in e.sets]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise WorldError(f"{file} is broken: {error!r}") from error
    later = ("execute.", "judge.")
    others = sum(job_seconds(job) for job in attempts(e.folder.jobs) if job.name.startswith(later))
    asked = [len(one.items) // one.benchmark.samples for one in e.sets]  # an item may be asked several times
    return {place: took[place] / count + others / sum(asked) for place, count in enumerate(asked)}


def probe_place(bench: Workbench) -> Path:
    """Folder of the probe."""
    return bench.run.baseline / "probe"


def _probe(bench: Workbench) -> Evaluation:
    return _evaluation(bench, probe_place(bench), [weights(bench, 0)], "validation", SMALLEST)


def measuring_conditions(bench: Workbench) -> str:
    """What scores are measured with now: `Score.measured_with` of a score that can be compared with new ones."""
    return conditions(bench.engine("opencompass"), _how(bench))


def start_sealed(bench: Workbench, best: Path | None) -> None:
    """Launch the one reading of the test split: base and, where there is one, best, in one process."""
    pipeline.advance(_evaluation(bench, bench.run.final, _finalists(bench, best), "test"))


def sealed_status(bench: Workbench) -> dict[str, Any]:
    """State of the sealed evaluation."""
    return pipeline.status(folder(bench, bench.run.final))


def stop_sealed(bench: Workbench) -> None:
    """End the sealed evaluation."""
    pipeline.stop(folder(bench, bench.run.final))


def sealed_scores(bench: Workbench, best: Path | None) -> tuple[list[Score], list[Score]]:
    """Test scores of base and best, [] without one; the benchmark that decides first. Raises RecipeError or WorldError."""
    found = _collect(_evaluation(bench, bench.run.final, _finalists(bench, best), "test"))
    return found[BASE], found.get(MODEL, [])


def sealed_precision(bench: Workbench) -> Precision:
    """Items and clusters of the sealed test that decides; nothing else of it leaves this function."""
    return precision_of(item_set(bench.benchmark, "test"))


def precision_of(one: ItemSet) -> Precision:
    """Items and clusters, before anything is measured."""
    alone = sum(not item.cluster for item in one.items)
    return Precision(len(one.items), alone + len({item.cluster for item in one.items if item.cluster}))


def _finalists(bench: Workbench, best: Path | None) -> list[Weights]:
    base = Weights(BASE, bench.setup.model_root)
    return [base, Weights(MODEL, best)] if best else [base]


def validation_sets(bench: Workbench, limit: int | None) -> list[ItemSet]:
    """At most `limit` validation items of each benchmark, in the order in which every model is measured."""
    return [item_set(folder, "validation", limit) for folder in bench.benchmarks]


def order_of(one: ItemSet) -> str:
    """Hash of the items' ids, in order."""
    return digest(*(item.id for item in one.items))


def _sets(bench: Workbench, split: Measured, limit: int | None) -> list[ItemSet]:
    """Raises WorldError where the validation items are others than those that the run began with."""
    if split == "test":
        return [item_set(folder, split) for folder in bench.benchmarks]
    found = validation_sets(bench, limit)
    if bench.run.validation.is_file() and limit == bench.validation_limit:
        order = read_json(bench.run.validation)["order"]
        for one in found:
            if order_of(one) != order[one.name]:
                raise WorldError(
                    f"{one.name}: its validation items are not those that this run began with: start it anew"
                )
    return found


def _how(bench: Workbench) -> How:
    """The same for every model of a run: one adapter that vLLM cannot serve takes them all to transformers."""
    adapters = [file.parent for file in sorted(bench.run.experiments.glob("[0-9]*/model/adapter_config.json"))]
    backend = choose_backend(bench.settings.eval_backend, bench.engine("opencompass"), bench.setup.device, adapters)
    device: Literal["cpu", "cuda"] = "cuda" if bench.setup.device == "cuda" else "cpu"
    return How(device=device, backend=backend, seed=bench.spec.seed, files=bench.settings.scorer_folder)


def _evaluation(
    bench: Workbench, where: Path, models: list[Weights], split: Measured, limit: int | None = None
) -> Evaluation:
    how = _how(bench)
    return Evaluation(
        folder(bench, where),
        tuple(models),
        tuple(_sets(bench, split, limit or bench.validation_limit)),
        how,
        # Without base or test scores there is no run: a later sitting tries again. A failed candidate has failed.
        retry=where in (bench.run.baseline, bench.run.final, probe_place(bench)),
        # vLLM wants the GPU for itself from its first import on: it starts cold
        worker="opencompass" if how.backend == "hf" else "",
    )


def _collect(e: Evaluation) -> dict[str, list[Score]]:
    try:
        scores = pipeline.collect(e)
    except (RecipeError, WorldError) as failed:  # a scorer's log may quote items that agents do not see
        text = open_lines(guard_of(e.bench.benchmarks, e.bench.validation_limit), str(failed))
        if isinstance(failed, LimitReachedError | WorldError):
            raise type(failed)(text) from failed
        raise RecipeError(text, culprit=failed.culprit) from failed
    return {model.name: [scores[model.name, one.name] for one in e.sets] for model in e.models}
