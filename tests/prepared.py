"""Runs that `prepare` is thought to have finished."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuneloop.core.files import write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec, Setup
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder
from tuneloop.tools.runs.manifest import write_manifest


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
    write_json(run.setup, Setup.model_validate({**values, **more}).model_dump(mode="json"))
    return run
