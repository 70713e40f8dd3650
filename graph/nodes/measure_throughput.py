"""How fast the base model trains here, for plans that must fit the run's time: measured once, in `prepare`."""

from __future__ import annotations

from dataclasses import replace

from tuneloop.core.errors import RecipeError
from tuneloop.core.events import RecipeFailure, ThroughputMeasured
from tuneloop.core.experiment import Throughput
from tuneloop.core.files import write_json
from tuneloop.graph.context import Context
from tuneloop.graph.wait import KILLS, wait_for_job
from tuneloop.tools.housekeeping.disk import remove_path
from tuneloop.tools.jobs.machine import is_tiny
from tuneloop.tools.training.launch import was_training_killed
from tuneloop.tools.training.throughput import (
    keep_throughput,
    known_throughput,
    measured_throughput,
    start_throughput,
    stop_throughput,
    throughput_folder,
    throughput_status,
)

SHARE = 0.1  # of the time left: a model that needs more for six small steps is planned for by a guess


def measure_throughput(ctx: Context) -> None:
    """Settle `baseline/throughput.json` where it is worth it, or say why there is none.

    Without an end of the run nothing has to fit. A tiny model trains within seconds, less than measuring it would take.
    """
    left = ctx.seconds_left(ctx.worked)
    if ctx.run.throughput.is_file():
        remove_path(throughput_folder(ctx.run_tools).work)  # a kill may have come before that
        return
    if left is None or is_tiny(ctx.run_tools.setup.model_root):
        return
    known = known_throughput(ctx.run_tools)
    try:
        found = known or measure(replace(ctx, seconds_limit=ctx.worked + SHARE * max(0.0, left), holds_gpus=False))
    except RecipeError as e:
        text = f"how fast the base model trains could not be measured: plans start from a guess. {e}"
        ctx.emit(RecipeFailure(node="prepare", culprit="environment", text=text))
        return
    ctx.emit(ThroughputMeasured(throughput=found, known=known is not None))  # twice after a kill, rather than never
    write_json(ctx.run.throughput, found.model_dump(mode="json"))
    remove_path(throughput_folder(ctx.run_tools).work)


def measure(ctx: Context) -> Throughput:
    """Launch the measurement and wait; one that was killed is launched again. Raises RecipeError."""
    run_tools = ctx.run_tools
    folder = throughput_folder(run_tools)
    for _ in range(KILLS):
        start_throughput(run_tools)
        try:
            status = wait_for_job(
                ctx,
                "throughput",
                lambda: throughput_status(run_tools),
                lambda: stop_throughput(run_tools),
                run_tools.proof(folder.jobs, "smoke_run"),
            )
        except RecipeError as e:
            if ctx.first_limit() == "time":  # the run's own time, which may have been shortened meanwhile
                raise
            raise RecipeError(f"It took more than {SHARE:.0%} of the time left", culprit="environment") from e
        if not was_training_killed(status):
            break
    found = measured_throughput(run_tools)
    keep_throughput(run_tools, found)
    return found
