"""Runs that `prepare` is thought to have finished, and the embedded benchmark that most of them are of."""

from __future__ import annotations

import functools
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.run_spec import RunSpec, Setup
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder
from tuneloop.tools.benchmark_items.resolve import resolve_benchmark
from tuneloop.tools.runs.manifest import write_manifest
from tuneloop.tools.runs.signature import write_setup


@functools.cache
def made_once() -> tuple[tempfile.TemporaryDirectory[str], Path]:
    """The embedded benchmark as this process made it; its folder goes with the first of the two."""
    folder = tempfile.TemporaryDirectory(prefix="tuneloop-tests-")
    return folder, resolve_benchmark("wordproblems", Home(Path(folder.name)), None).root


def wordproblems(home: Home) -> BenchmarkFolder:
    """The embedded benchmark in a home: copied, where making its items is not what is tested."""
    target = home.benchmarks / "wordproblems"
    if not target.exists():
        shutil.copytree(made_once()[1], target)
    return resolve_benchmark("wordproblems", home, None)


def prepared(run: RunFolder, spec: RunSpec, found: BenchmarkFolder, model: Path, **more: Any) -> RunFolder:
    """Write the run's spec and setup; `more` replaces what the setup says."""
    write_manifest(run, spec)
    values = {
        "benchmark": found.benchmark,
        "benchmark_root": found.root,
        "benchmark_fingerprint": found.fingerprint,
        "model_name": spec.base_model,
        "model_root": model,
        "model_fingerprint": "-",
        "datasets": {},
        "dataset_fingerprints": {},
        "sandbox": spec.sandbox,
        "device": "cpu",
        "planner": "offline",
        "versions": {},
    }
    write_setup(run, Setup.model_validate({**values, **more}))
    (run.root / "datasets").mkdir(exist_ok=True)
    return run
