"""Open a run: everything that can be seen to be wrong is refused here, before anything costs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tuneloop.agents.planners import check_planner
from tuneloop.agents.policy.dataset_selection import DatasetSelection, select_datasets
from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import exclusive
from tuneloop.core.run_spec import AUTO, RunSpec
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.choose import open_run_sandbox
from tuneloop.tools.benchmark_items.resolve import check_benchmark
from tuneloop.tools.engines.find import check_engines
from tuneloop.tools.hub import datasets
from tuneloop.tools.hub.base_models import find_candidates, judge_candidates, possible_models
from tuneloop.tools.jobs.gpu_share import check_gpus, check_training_devices
from tuneloop.tools.jobs.node_files import open_nodes
from tuneloop.tools.llm_proxy.access import data_access, missing, unpriced
from tuneloop.tools.runs.manifest import read_spec, write_manifest
from tuneloop.tools.runs.mirror import check_mirror
from tuneloop.tools.runs.request import check_names, folder_name, free_name, fresh_name
from tuneloop.tools.runs.signature import check_signed
from tuneloop.tools.scoring.llm_judge import find_judge

LEAST_DISK = 2 << 30


def create_run_folder(spec: RunSpec, settings: Settings, name: str = "") -> RunFolder:
    """Make `runs/<id>/run.yaml`, or find it for the same spec. Raises InvalidRequestError in one line; nothing half-made stays."""
    given = folder_name(name)
    if given and (found := find_same(settings.home.run(given), spec)):
        return found
    check_spec(spec, settings)
    check_model_choice(spec, settings)
    settings.home.runs.mkdir(parents=True, exist_ok=True)
    with exclusive(settings.home.runs / ".create.lock"):  # another process may have been faster
        run = settings.home.run(given or free_name(settings.home, fresh_name(spec.benchmark)))
        if found := find_same(run, spec):
            return found
        write_manifest(run, spec)
    return run


def find_same(run: RunFolder, spec: RunSpec) -> RunFolder | None:
    """The run, where it is there. Raises InvalidRequestError where it is another one of the name."""
    if not run.spec.is_file():
        return None
    if read_spec(run) != spec:
        raise InvalidRequestError(f"run {run.id!r} exists with another spec; resume it, or choose another --run-id")
    check_signed(run)
    return run


def check_spec(spec: RunSpec, settings: Settings) -> None:
    """Benchmark, model, data, sandbox, engines' folder, models that jobs may ask, disk and the folder itself."""
    check_writable(settings.home.root)
    declared = check_names(spec, settings)
    if not spec.datasets:
        choose_datasets_for(declared[0])
    sandbox = open_run_sandbox(spec.sandbox, settings.unsandboxed)
    sandbox = open_nodes(spec.executor, sandbox, settings)
    for folder in (settings.home.root, settings.home.engines):
        sandbox.check_reachable(folder.absolute())
    check_engines(settings)
    check_gpus(spec)
    check_training_devices(spec, settings)
    check_mirror(settings.storage)
    data_access(settings)
    find_judge(settings, declared)
    check_planner(settings)
    check_prices(spec, settings, declared)


def check_model_choice(spec: RunSpec, settings: Settings) -> None:
    """Raises InvalidRequestError where no base model is named and none could be chosen."""
    if spec.base_model == AUTO:
        benchmark = check_benchmark(spec.benchmark, settings)
        possible_models(judge_candidates(find_candidates(settings), benchmark, settings, spec))


def check_prices(spec: RunSpec, settings: Settings, declared: list[Benchmark]) -> None:
    """Refuse a money limit when a price is unknown. Raises InvalidRequestError."""
    if spec.max_cost is None:
        return
    chat = (
        (settings.chat_model, *settings.chat_models.values(), *settings.chat_fallbacks) if settings.chat_model else ()
    )
    data, judge = data_access(settings), find_judge(settings, declared)
    asked = (*chat, *(data.models if data else ()), *(judge.models if judge else ()))
    unknown = unpriced([model for model in dict.fromkeys(asked) if model], settings)
    if unknown:
        raise InvalidRequestError(f"--max-cost {spec.max_cost:g}: {missing(unknown)}")


def choose_datasets_for(benchmark: Benchmark) -> DatasetSelection:
    """What would be chosen for it. Raises InvalidRequestError when no card fits."""
    if benchmark.own_dataset:
        return DatasetSelection(datasets=(benchmark.own_dataset,), reason="it is the benchmark's own")
    selection = select_datasets(benchmark, datasets.dataset_cards().values())
    if not selection.datasets:
        raise InvalidRequestError(
            f"no registered data set fits benchmark {benchmark.name} (domain {benchmark.domain}): name one with --dataset"
        )
    return selection


def check_writable(root: Path) -> None:
    """Raises InvalidRequestError when `root` cannot be written or its disk is nearly full."""
    there = root
    while not there.exists():
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise InvalidRequestError(f"FT_FILE_PATH={root}: cannot write there; name a folder that you own")
    free = shutil.disk_usage(there).free
    if free < LEAST_DISK:
        raise InvalidRequestError(
            f"FT_FILE_PATH={root}: only {free >> 20} MiB are free and a run wants 2048; free some or move it"
        )
