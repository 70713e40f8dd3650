"""Run an experiment's `process_data.py`: on samples (`dry_run`) or on everything (`build_data`), always in the sandbox."""

from __future__ import annotations

from pathlib import Path

from tuneloop.core.errors import RecipeError, WorldError
from tuneloop.core.files import digest
from tuneloop.core.job import Command, JobStatus
from tuneloop.core.layout import ExperimentFolder
from tuneloop.tools.asking import CLIENT
from tuneloop.tools.contamination.splits import guard_of
from tuneloop.tools.contamination.withheld import open_lines
from tuneloop.tools.gate.script import check_script
from tuneloop.tools.heard import gone, in_vain
from tuneloop.tools.limits import job_limits
from tuneloop.tools.llm_proxy.access import data_access, upstreams
from tuneloop.tools.workbench import Workbench

# Modules beyond the standard library that data scripts may import; every llamafactory engine has them.
MODULES = frozenset({"numpy", "pandas", "pyarrow", "regex"})
# And what speaks to models, where the engine has it and the run may ask models.
CLIENTS = frozenset({"httpx", "litellm", "openai", "requests"})


def script_findings(bench: Workbench, code: str) -> list[str]:
    """What is wrong with a script before it runs, one sentence each."""
    if data_access(bench.settings) is None:
        return check_script(code, MODULES)
    return check_script(code, MODULES | (CLIENTS & bench.engine("llamafactory").packages.keys()), models=True)


def script_key(bench: Workbench, folder: ExperimentFolder, *, debug: bool) -> str:
    """Everything that can change the script's output."""
    prints = sorted(f"{k}:{v}" for k, v in bench.setup.dataset_fingerprints.items())
    access = data_access(bench.settings)
    models = [f"{access.strong} {access.weak} {upstreams(bench.settings)['data'].base}"] if access else []
    seen = [bench.view.key] if bench.view.key else []
    return digest(
        folder.script.read_bytes(), str(debug), bench.engine("llamafactory").identity, *prints, *models, *seen
    )


def script_output(bench: Workbench, folder: ExperimentFolder, *, debug: bool) -> Path:
    """Folder in which this version of the script writes `data.json`."""
    return folder.work / f"{job_name(debug=debug)}-{script_key(bench, folder, debug=debug)}"


def start_script(bench: Workbench, folder: ExperimentFolder, *, debug: bool) -> str:
    """Launch the script; returns the job's name. Again it changes nothing, unless models were gone the last time."""
    engine, settings = bench.engine("llamafactory"), bench.settings
    out = script_output(bench, folder, debug=debug)
    out.mkdir(parents=True, exist_ok=True)
    access = data_access(settings)
    client = (str(CLIENT),) if access else ()
    # Not -I: it would not heed the seed of hashes either, and the order of a set shall be the same every time.
    alone = {"PYTHONSAFEPATH": "1", "PYTHONNOUSERSITE": "1", "PYTHONPATH": str(CLIENT.parent) if access else ""}
    command = Command(
        argv=(str(engine.python), str(folder.script), *(["--debug"] if debug else [])),
        cwd=str(out),
        env={**bench.environment(out), **engine.env, **alone, "DATASETS_DIR": str(bench.view.root)},
        read=(*engine.readable, *client, str(folder.script), str(bench.view.root), *bench.view.read),
        write=(str(out),),
        generated=True,
        limits=job_limits(settings, settings.debug_data_timeout if debug else settings.data_timeout, folder.root),
        key=script_key(bench, folder, debug=debug),
    )
    name = job_name(debug=debug)
    bench.launch(folder.jobs, name, command, access=access, retry=models_were_gone(bench, folder, name))
    return name


def job_name(*, debug: bool) -> str:
    """Of a script's job."""
    return "dry_run" if debug else "build_data"


def models_were_gone(bench: Workbench, folder: ExperimentFolder, name: str) -> bool:
    """Whether the newest attempt ended because the models' endpoint, not the script, was at fault."""
    status, job = bench.status(folder.jobs, name)
    return job is not None and status.exit is not None and bool(gone(bench.run, job, status.exit))


def script_result(bench: Workbench, folder: ExperimentFolder, status: JobStatus, job: Path, *, debug: bool) -> Path:
    """The `data.json` that a job over by now wrote.

    Raises RecipeError with the end of its log, no sealed item in it, WorldError when the models that it asked were gone.
    """
    data = script_output(bench, folder, debug=debug) / "data.json"
    if status.exit is not None and (trouble := gone(bench.run, job, status.exit)):
        raise WorldError(trouble)
    vain = in_vain(bench.run, job) if status.exit and not status.exit.killed else ""
    if vain or status.exit is None or not status.exit.ok:
        why = open_lines(guard_of(bench.benchmarks, bench.validation_limit), bench.why(job, status))
        ruled_out = " Some sources are not there: the user ruled them out." if bench.view.key else ""
        raise RecipeError(f"{vain or 'process_data.py failed.'}{ruled_out} {why}", culprit="script")
    if data.is_symlink() or not data.is_file():  # a link could lead to what the script may not read
        raise RecipeError("process_data.py ended well but wrote no data.json in its working folder", culprit="script")
    return data
