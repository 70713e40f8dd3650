"""Run an experiment's `process_data.py`: on samples (`dry_run`) or on everything (`build_data`), always in the sandbox."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tuneloop.core.errors import InfrastructureError, RecipeError
from tuneloop.core.files import digest, read_bytes
from tuneloop.core.job import Command, Exit, JobStatus
from tuneloop.core.layout import ExperimentFolder, RunFolder
from tuneloop.core.untrusted import check_plain
from tuneloop.tools.contamination.guard import Guard
from tuneloop.tools.contamination.splits import make_guard
from tuneloop.tools.data_script.static_check import NAME, check_script, text_constants
from tuneloop.tools.jobs.machine import job_limits
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.llm_proxy.access import data_access, upstreams
from tuneloop.tools.llm_proxy.batch import CLIENT
from tuneloop.tools.llm_proxy.launcher import endpoint_name
from tuneloop.tools.llm_proxy.ledger import Entry, read_ledger

# What models gave to a data script that asked them, by the ledger: nothing that the script says is believed.

LARGEST_DATA = 1 << 33  # bytes of data.json, by its apparent size: everything is read and hashed
LARGEST_SAMPLE = 1 << 28  # of what a try writes
GONE = 75  # exit status by which the client in the engine says that the endpoint is at fault
TOO_MANY = 429
SHORTEST_ITEM, MOST_SHOWN = 20, 5  # letters of a constant that may hold an item: a shorter one is an answer or a word
CURES = {
    "upstream_refused_key": "it refuses the key; right is one in OPENAI_API_KEY that it takes",
    "upstream_unreachable": "it cannot be reached; right is OPENAI_API_BASE, and an endpoint that runs",
    "insufficient_quota": "its account is used up",
    "limit_reached": "what the job or the run may use is used up; write it with fewer requests, or without models",
    "model_not_allowed": "it asks a model that the run does not name; right are those of STRONG_MODEL_POOL and WEAK_MODEL_POOL",
}


def job_requests(run: RunFolder, job: Path) -> list[Entry]:
    """The requests of one attempt of a job."""
    name, _, _ = job.name.rpartition(".")
    began = (job / "command.json").stat().st_mtime
    own = endpoint_name(run, job.parent, name)
    return [entry for entry in read_ledger(run.ledger) if entry.job == own and entry.at >= began - 0.001]


def endpoint_failure(run: RunFolder, job: Path, end: Exit) -> str:
    """Why the models' endpoint ended a script, "" where it did not."""
    if end.code != GONE:
        return ""
    faults = [entry for entry in job_requests(run, job) if is_provider_fault(entry)]
    if not faults:
        return ""
    reason = most_frequent_reason(faults)
    return f"the models' endpoint failed {len(faults)} times: {reason}; then `tuneloop resume`: no answer is paid twice"


def unanswered_reason(run: RunFolder, job: Path) -> str:
    """What is wrong with a script that asked models and got no answer at all, "" with any other."""
    entries = job_requests(run, job)
    if not entries or any(entry.outcome in ("answered", "cached", "cut") for entry in entries):
        return ""
    return f"process_data.py asked models {len(entries)} times and got no answer: {most_frequent_reason(entries)}."


def is_provider_fault(entry: Entry) -> bool:
    """Whether a request failed through the provider's fault."""
    return entry.outcome == "failed" and (entry.status >= 500 or entry.status in (404, TOO_MANY))


def most_frequent_reason(entries: list[Entry]) -> str:
    """The most frequent one, with a cure where there is one."""
    (code, status), _ = Counter((entry.code, entry.status) for entry in entries).most_common(1)[0]
    return CURES.get(code, f"{status} {code}".strip())


# Modules beyond the standard library that data scripts may import; every llamafactory engine has them.
MODULES = frozenset({"numpy", "pandas", "pyarrow", "regex"})
# And what speaks to models, where the engine has it and the run may ask models.
CLIENTS = frozenset({"httpx", "litellm", "openai", "requests"})


def script_findings(run_tools: RunTools, code: str) -> list[str]:
    """What is wrong with a script before it runs, one sentence each."""
    models = data_access(run_tools.settings) is not None
    clients = CLIENTS & run_tools.engine("llamafactory").packages.keys() if models else frozenset()
    if found := check_script(code, MODULES | clients, models=models):
        return found
    return embedded_items(code, make_guard(run_tools.benchmarks, run_tools.validation_limit))


def embedded_items(code: str, guard: Guard) -> list[str]:
    """Text constants of a script that hold shown validation items, one sentence each; of sealed items nobody is told."""
    texts = [(line, text) for line, text in text_constants(code) if len(text) >= SHORTEST_ITEM]
    # As it stands: read as markup, a pattern such as `\d(?:/[1-9])` would be the short item "1 - 9".
    hits = guard.find(text.replace("\\", " ") for _, text in texts)
    lines = [line for (line, _), hit in zip(texts, hits, strict=True) if hit and not hit.sealed]
    return [
        f"{NAME}:{line}: a text holds a validation item; right is a script that reads its rows from DATASETS_DIR"
        for line in dict.fromkeys(lines[:MOST_SHOWN])
    ]


def script_key(run_tools: RunTools, folder: ExperimentFolder, *, debug: bool) -> str:
    """Everything that can change the script's output."""
    prints = sorted(f"{k}:{v}" for k, v in run_tools.setup.dataset_fingerprints.items())
    access = data_access(run_tools.settings)
    models = [f"{access.strong} {access.weak} {upstreams(run_tools.settings)['data'].base}"] if access else []
    seen = [run_tools.view.key] if run_tools.view.key else []
    return digest(
        read_bytes(folder.script), str(debug), run_tools.engine("llamafactory").identity, *prints, *models, *seen
    )


def script_output(run_tools: RunTools, folder: ExperimentFolder, *, debug: bool) -> Path:
    """Folder in which this version of the script writes `data.json`."""
    return folder.work / f"{job_name(debug=debug)}-{script_key(run_tools, folder, debug=debug)}"


def start_script(run_tools: RunTools, folder: ExperimentFolder, *, debug: bool) -> str:
    """Launch the script; returns the job's name. Again it changes nothing, unless models were gone the last time."""
    engine, settings = run_tools.engine("llamafactory"), run_tools.settings
    out = script_output(run_tools, folder, debug=debug)
    out.mkdir(parents=True, exist_ok=True)
    access = data_access(settings)
    client = (str(CLIENT),) if access else ()
    # Not -I: it would ignore PYTHONHASHSEED too, and the order of a set shall be the same every time.
    alone = {"PYTHONSAFEPATH": "1", "PYTHONNOUSERSITE": "1", "PYTHONPATH": str(CLIENT.parent) if access else ""}
    command = Command(
        argv=(str(engine.python), str(folder.script), *(["--debug"] if debug else [])),
        cwd=str(out),
        env={**run_tools.environment(out), **engine.env, **alone, "DATASETS_DIR": str(run_tools.view.root)},
        read=(*engine.readable, *client, str(folder.script), str(run_tools.view.root), *run_tools.view.read),
        write=(str(out),),
        generated=True,
        limits=job_limits(settings, settings.debug_data_timeout if debug else settings.data_timeout, folder.root),
        key=script_key(run_tools, folder, debug=debug),
    )
    name = job_name(debug=debug)
    run_tools.launch(folder.jobs, name, command, access=access, retry=was_endpoint_gone(run_tools, folder, name))
    return name


def job_name(*, debug: bool) -> str:
    """Of a script's job."""
    return "dry_run" if debug else "build_data"


def was_endpoint_gone(run_tools: RunTools, folder: ExperimentFolder, name: str) -> bool:
    """Whether the newest attempt ended because the models' endpoint, not the script, was at fault."""
    status, job = run_tools.status(folder.jobs, name)
    return job is not None and status.exit is not None and bool(endpoint_failure(run_tools.run, job, status.exit))


def script_result(run_tools: RunTools, folder: ExperimentFolder, status: JobStatus, job: Path, *, debug: bool) -> Path:
    """The `data.json` that a job over by now wrote.

    Raises RecipeError with the end of its log, InfrastructureError when the models that it asked were gone.
    """
    data = script_output(run_tools, folder, debug=debug) / "data.json"
    if status.exit is not None and (trouble := endpoint_failure(run_tools.run, job, status.exit)):
        raise InfrastructureError(trouble)
    vain = unanswered_reason(run_tools.run, job) if status.exit and not status.exit.killed else ""
    if vain or status.exit is None or not status.exit.ok:
        why = run_tools.failure_text(job, status)
        ruled_out = " Some sources are not there: the user ruled them out." if run_tools.view.key else ""
        raise RecipeError(f"{vain or 'process_data.py failed.'}{ruled_out} {why}", culprit="script")
    why_not = refuse_output(data, LARGEST_SAMPLE if debug else LARGEST_DATA)
    if why_not:
        raise RecipeError(f"process_data.py ended well but {why_not}", culprit="script")
    return data


def refuse_output(data: Path, most: int) -> str:
    """Why what a script left as `data.json` is not read, "" where it is: a link could lead to what the script may not read."""
    try:
        check_plain(data, most)
    except FileNotFoundError:
        return "wrote no data.json in its working folder"
    except ValueError as e:
        return f"left a data.json that is not read: {e}"
    return ""
