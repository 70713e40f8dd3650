"""finish: further seeds, the candidate made whole, the sealed test read once for base and candidate together, the report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from langgraph.graph import END

from tuneloop.core.errors import InfrastructureError, RecipeError
from tuneloop.core.events import RunFinished
from tuneloop.core.experiment import Candidates
from tuneloop.core.files import read_model, write_json
from tuneloop.core.layout import ExperimentFolder
from tuneloop.core.score import Score, SealedTest
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.evaluate import run_evaluation
from tuneloop.graph.nodes.extra_seeds import candidate_folder, choose_candidate
from tuneloop.graph.outcomes.report_data import report_data, run_facts
from tuneloop.graph.wait import wait_for_job
from tuneloop.tools.evaluation.run_evaluation import sealed_scores, sealed_status, start_sealed, stop_sealed
from tuneloop.tools.evaluation.test_access_log import log_test_access
from tuneloop.tools.housekeeping.pruning import prune_experiment
from tuneloop.tools.hub.store import MANIFEST
from tuneloop.tools.report.markdown import plain_verdict
from tuneloop.tools.report.unevaluated import unevaluated_verdict, write_unevaluated_report
from tuneloop.tools.report.write import write_report
from tuneloop.tools.statistics import compare
from tuneloop.tools.weights.delivery import (
    deliver_candidate,
    drop_merged,
    is_adapter,
    make_whole_model,
    merge_status,
    start_merge,
)


def finish(ctx: Context) -> dict[str, Any]:
    """Choose, read the test, deliver, write `report.md` and, last, `report.json`."""
    if not ctx.run.report_json.is_file():
        ctx.run.final.mkdir(exist_ok=True)
        found = choose_candidate(replace(ctx, holds_gpus=True))
        if ctx.run_tools.spec.evaluated:
            deliver_tested(ctx, found)
        else:
            deliver_unevaluated(ctx, found)
    return {"stage": END, "report": str(ctx.run.report)}


def deliver_tested(ctx: Context, found: Candidates) -> None:
    """Base and candidate on the sealed test; the candidate is delivered unless it measures below the base."""
    run = ctx.run
    if found.chosen is not None and not (run.final / "test.json").is_file():
        make_candidate(ctx, candidate_folder(ctx, found.chosen))
    test = load_or_run_sealed_test(ctx, candidate=found.chosen is not None)
    delivered = not is_below_base(test) if test.best else False
    deliver_candidate(run, delivered=delivered)
    if delivered and found.chosen and found.chosen.training > 1:
        prune_experiment(candidate_folder(ctx, found.chosen), weights=True, raw=True, rule="seeds")
    ctx.run_tools.workers.stop()  # before the report: what is finished is not resumed, and nobody would do it
    data = report_data(ctx, test, found)
    write_report(run, data)
    ctx.emit(
        RunFinished(
            report=str(run.report),
            says=plain_verdict(data),
            best=found.chosen.experiment if found.chosen else None,
            delivered=delivered,
            baseline_test=test.base[0].value,
            best_test=test.best[0].value if test.best else None,
        )
    )


def deliver_unevaluated(ctx: Context, found: Candidates) -> None:
    """The model that was trained, as it is: no test is read, and the report claims nothing."""
    run = ctx.run
    if found.chosen is not None and not (run.best / MANIFEST).is_file():
        make_candidate(ctx, candidate_folder(ctx, found.chosen))
        deliver_candidate(run, delivered=True)
    ctx.run_tools.workers.stop()
    data = run_facts(ctx, found)
    write_unevaluated_report(run, data)
    says = unevaluated_verdict(data)
    ctx.emit(RunFinished(report=str(run.report), says=says, delivered=found.chosen is not None))


def is_below_base(test: SealedTest) -> bool:
    """Whether the sealed test measures the candidate below the base model: then the base model stays."""
    return compare(test.best[0], test.base[0]).worse


def make_candidate(ctx: Context, folder: ExperimentFolder) -> None:
    """The candidate as a whole model; an adapter is merged by the engine first. Raises InfrastructureError when that fails."""
    run_tools = ctx.run_tools
    if is_adapter(folder.model) and not (ctx.run.candidate / "manifest.json").is_file():
        start_merge(run_tools, folder)
        end = wait_for_job(
            ctx.without_deadline(),
            "merge",
            lambda: merge_status(run_tools),
            lambda: run_tools.stop(ctx.run.final / "jobs", "merge"),
            run_tools.proof(ctx.run.final / "jobs", "merge"),
        )
        if end.exit is None or end.exit.code != 0:
            raise InfrastructureError(f"merging the adapter failed; see {ctx.run.final / 'jobs'}")
    make_whole_model(run_tools, folder)
    drop_merged(ctx.run)


def load_or_run_sealed_test(ctx: Context, *, candidate: bool) -> SealedTest:
    """Test scores of the base model and, where there is one, the candidate: found in `final/test.json` or measured once."""
    file = ctx.run.final / "test.json"
    log_test_access(ctx.run_tools)
    if not file.is_file():
        try:
            base, tuned = run_sealed_test(ctx, candidate=candidate)
        except RecipeError as e:
            raise InfrastructureError(f"the sealed test could not be read: {e}") from e
        write_json(file, SealedTest(base=tuple(base), best=tuple(tuned)).model_dump(mode="json"))
    return read_model(file, SealedTest)


def run_sealed_test(ctx: Context, *, candidate: bool) -> tuple[list[Score], list[Score]]:
    """Launch, wait, verify. A run whose time is over still ends with its test score."""
    run_tools, without_deadline = ctx.run_tools, ctx.without_deadline()
    model = ctx.run.candidate if candidate else None
    run_evaluation(
        without_deadline,
        "sealed test",
        ctx.run.final,
        lambda: start_sealed(run_tools, model),
        lambda: sealed_status(run_tools),
        lambda: stop_sealed(run_tools),
    )
    return sealed_scores(run_tools, model)
