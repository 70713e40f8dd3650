"""build_data: the script on everything, then the data gate on every record (check 3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuneloop.core.errors import InfrastructureError, RecipeError
from tuneloop.core.files import read_field
from tuneloop.core.job import JobReport
from tuneloop.core.layout import ExperimentFolder
from tuneloop.graph.context import Context
from tuneloop.graph.outcomes.warnings import add_warning
from tuneloop.graph.wait import KILLS, wait_for_job
from tuneloop.tools.data_script.dataset_build import gate_data, is_dataset_built
from tuneloop.tools.data_script.run import script_result, start_script
from tuneloop.tools.jobs.progress import told_progress
from tuneloop.tools.training import methods
from tuneloop.tools.training.grpo_recipe import check_built


def build_data(ctx: Context) -> dict[str, Any]:
    """Run the script, gate its rows; `data/report.json` is written last."""
    folder = ctx.folder
    if not is_dataset_built(ctx.run_tools, folder):
        gate_data(ctx.run_tools, folder, run_data_script(ctx, folder, debug=False))
    if read_field(folder.data / "report.json", "rows", int) == 0:
        raise RecipeError("no row was left after the data gate", culprit="data")
    if methods.by_grpo(folder):
        add_warning(folder, check_built(ctx.run_tools, folder))
    return {"stage": "smoke_run"}


def run_data_script(ctx: Context, folder: ExperimentFolder, *, debug: bool) -> Path:
    """The `data.json` that the script writes. Raises RecipeError when it fails, InfrastructureError when it is always killed."""
    run_tools, name = ctx.run_tools, "dry_run" if debug else "build_data"

    def poll() -> JobReport:
        status, job = run_tools.status(folder.jobs, name)
        return JobReport.of(status, **(told_progress(job / "log.txt") if job else {}))

    for _ in range(KILLS):
        start_script(run_tools, folder, debug=debug)
        proof = run_tools.proof(folder.jobs, name)
        if not wait_for_job(ctx, name, poll, lambda: run_tools.stop(folder.jobs, name), proof).killed:
            status, job = run_tools.status(folder.jobs, name)
            if job is None:
                raise RecipeError(f"{name} was never launched", culprit="environment")
            return script_result(run_tools, folder, status, job, debug=debug)
    raise InfrastructureError(f"{name} was killed {KILLS} times; look at {folder.jobs}")
