"""finish: the best model made whole, the sealed test read once for base and best together, the report."""

from __future__ import annotations

from typing import Any

from langgraph.graph import END

from tuneloop.core.errors import RecipeError, WorldError
from tuneloop.core.events import RunFinished
from tuneloop.core.experiment import Experiment
from tuneloop.core.files import read_json, write_json
from tuneloop.core.score import Score, SealedTest
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.evaluate import carried_out
from tuneloop.graph.reporting import report_data
from tuneloop.graph.wait import KILLS, wait
from tuneloop.tools.delivery import deliver, drop_merged, is_adapter, merge_status, start_merge
from tuneloop.tools.measuring import sealed_scores, sealed_status, start_sealed, stop_sealed
from tuneloop.tools.reads import count_reads, note_read
from tuneloop.tools.report.write import write_report
from tuneloop.tools.runs.journal import load_journal
from tuneloop.tools.workbench import job_report
from tuneloop.tools.workers import stop_workers


def finish(ctx: Context) -> dict[str, Any]:
    """Deliver, read the test, write `report.md` and, last, `report.json`."""
    run = ctx.run
    if not run.report_json.is_file():
        best = load_journal(run).best
        if best is not None:
            make_best(ctx, best)
        test = sealed_test(ctx, best)
        stop_workers(ctx.bench)  # before the report: what is finished is not resumed, and nobody would do it
        write_report(run, report_data(ctx, test, count_reads(ctx.bench)))
        ctx.emit(
            RunFinished(
                report=str(run.report),
                best=best.number if best else None,
                baseline_test=test.base[0].value,
                best_test=test.best[0].value if test.best else None,
            )
        )
    return {"stage": END, "report": str(run.report)}


def make_best(ctx: Context, best: Experiment) -> None:
    """`best/`; an adapter is merged by the engine first. Raises WorldError when that fails."""
    bench, folder = ctx.bench, ctx.run.experiment(best.number)
    if is_adapter(folder.model) and not (ctx.run.best / "manifest.json").is_file():
        start_merge(bench, folder)
        end = wait(
            ctx.unhurried(),
            "merge",
            lambda: job_report(merge_status(bench)),
            lambda: bench.stop(ctx.run.final / "jobs", "merge"),
            bench.proof(ctx.run.final / "jobs", "merge"),
        )
        if not end["exit"] or end["exit"]["code"] != 0:
            raise WorldError(f"merging the adapter failed; see {ctx.run.final / 'jobs'}")
    deliver(bench, folder)
    drop_merged(ctx.run)


def sealed_test(ctx: Context, best: Experiment | None) -> SealedTest:
    """Test scores of base and best, found in `final/test.json` or measured once."""
    file = ctx.run.final / "test.json"
    if not file.is_file():
        note_read(ctx.bench)
        try:
            base, tuned = read_test(ctx, best)
        except RecipeError as e:
            raise WorldError(f"the sealed test could not be read: {e}") from e
        write_json(file, SealedTest(base=tuple(base), best=tuple(tuned)).model_dump(mode="json"))
    return SealedTest.model_validate(read_json(file))


def read_test(ctx: Context, best: Experiment | None) -> tuple[list[Score], list[Score]]:
    """Launch, wait, verify. A run whose time is over still ends with its test score."""
    bench, unhurried = ctx.bench, ctx.unhurried()
    model = ctx.run.best if best else None
    for _ in range(KILLS):
        if carried_out(
            unhurried,
            "sealed test",
            ctx.run.final,
            lambda: start_sealed(bench, model),
            lambda: sealed_status(bench),
            lambda: stop_sealed(bench),
        ):
            return sealed_scores(bench, model)
    raise WorldError(f"the reading of the sealed test was killed {KILLS} times; look at {ctx.run.final / 'jobs'}")
