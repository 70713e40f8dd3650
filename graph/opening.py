"""Open a run: everything that can be seen to be wrong is refused here, before anything costs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tuneloop.agents.planners import check_planner
from tuneloop.agents.policy.selection import Selection, select
from tuneloop.core.benchmark import Benchmark
from tuneloop.core.errors import SetupError
from tuneloop.core.layout import RunFolder
from tuneloop.core.run import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.choose import check_sandbox
from tuneloop.tools import benchmarks, datasets, models
from tuneloop.tools.judge import find_judge
from tuneloop.tools.llm_proxy.access import data_access, missing, unpriced
from tuneloop.tools.runs.manifest import read_spec, write_manifest
from tuneloop.tools.runs.naming import folder_name, fresh_name

LEAST_DISK = 2 << 30


def open_run(spec: RunSpec, settings: Settings, name: str = "") -> RunFolder:
    """Make `runs/<id>/run.yaml`, or find it for the same spec. Raises SetupError in one line; nothing half-made stays."""
    run = settings.home.run(folder_name(name) or fresh_name(spec.benchmark))
    if run.spec.is_file():
        if read_spec(run) != spec:
            raise SetupError(f"run {run.id!r} exists with another spec; resume it, or choose another --run-id")
        return run
    check(spec, settings)
    write_manifest(run, spec)
    return run


def check(spec: RunSpec, settings: Settings) -> None:
    """Benchmark, model, data, sandbox, models that jobs may ask, disk and the folder itself."""
    writable(settings.home.root)
    declared = [benchmarks.check(name, settings) for name in spec.measured]
    models.check(spec.base_model)
    for dataset in spec.datasets:
        datasets.check(dataset)
    if not spec.datasets:
        choice(declared[0])
    check_sandbox(spec.sandbox, spec.allow_unsandboxed)
    data_access(settings)
    find_judge(settings, declared)
    check_planner(settings)
    check_prices(spec, settings, declared)


def check_prices(spec: RunSpec, settings: Settings, declared: list[Benchmark]) -> None:
    """Money can be limited only where it is known. Raises SetupError."""
    if spec.max_cost is None:
        return
    chat = (
        (settings.chat_model, *settings.chat_models.values(), *settings.chat_fallbacks) if settings.chat_model else ()
    )
    data, judge = data_access(settings), find_judge(settings, declared)
    asked = (*chat, *(data.models if data else ()), *(judge.models if judge else ()))
    unknown = unpriced([model for model in dict.fromkeys(asked) if model], settings)
    if unknown:
        raise SetupError(f"--max-cost {spec.max_cost:g}: {missing(unknown)}")


def choice(benchmark: Benchmark) -> Selection:
    """What would be chosen for it. Raises SetupError when no card fits."""
    selection = select(benchmark, datasets.cards().values())
    if not selection.datasets:
        raise SetupError(
            f"no registered data set fits benchmark {benchmark.name} (domain {benchmark.domain}): name one with --dataset"
        )
    return selection


def writable(root: Path) -> None:
    """Raises SetupError when `root` cannot be written or its disk is nearly full."""
    there = root
    while not there.exists():
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise SetupError(f"FT_FILE_PATH={root}: cannot write there; name a folder that you own")
    free = shutil.disk_usage(there).free
    if free < LEAST_DISK:
        raise SetupError(
            f"FT_FILE_PATH={root}: only {free >> 20} MiB are free and a run wants 2048; free some or move it"
        )
