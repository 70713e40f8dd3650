"""build_data: the script on everything, then the data gate on every record (rung 3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuneloop.core.errors import RecipeError, WorldError
from tuneloop.core.files import read_json
from tuneloop.core.layout import ExperimentFolder
from tuneloop.graph.context import Context
from tuneloop.graph.wait import KILLS, killed, wait
from tuneloop.tools.building import gate_data, is_built
from tuneloop.tools.progress import told_progress
from tuneloop.tools.scripts import script_result, start_script
from tuneloop.tools.workbench import job_report


def build_data(ctx: Context) -> dict[str, Any]:
    """Run the script, gate its rows; `data/report.json` is written last."""
    folder = ctx.folder
    if not is_built(ctx.bench, folder):
        gate_data(ctx.bench, folder, run_script(ctx, folder, debug=False))
    if int(read_json(folder.data / "report.json")["rows"]) == 0:
        raise RecipeError("no row was left after the data gate", culprit="data")
    return {"stage": "rehearse"}


def run_script(ctx: Context, folder: ExperimentFolder, *, debug: bool) -> Path:
    """The `data.json` that the script writes. Raises RecipeError when it fails, WorldError when it is always killed."""
    bench, name = ctx.bench, "dry_run" if debug else "build_data"

    def poll() -> dict[str, Any]:
        status, job = bench.status(folder.jobs, name)
        return job_report(status, **(told_progress(job / "log.txt") if job else {}))

    for _ in range(KILLS):
        start_script(bench, folder, debug=debug)
        proof = bench.proof(folder.jobs, name)
        if not killed(wait(ctx, name, poll, lambda: bench.stop(folder.jobs, name), proof)):
            status, job = bench.status(folder.jobs, name)
            if job is None:
                raise RecipeError(f"{name} was never launched", culprit="environment")
            return script_result(bench, folder, status, job, debug=debug)
    raise WorldError(f"{name} was killed {KILLS} times; look at {folder.jobs}")
