"""A data set's profile, made once for a machine: it follows from the data, the benchmark and the code that looks."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

from tuneloop.core.benchmark import Item
from tuneloop.core.files import digest, read_json, write_json
from tuneloop.core.layout import Home
from tuneloop.core.setup import Setup
from tuneloop.tools.profiling.profile import profile_dataset

LOOKS = (
    "tuneloop.core.text",
    "tuneloop.core.raw",
    "tuneloop.core.records",
    "tuneloop.core.profile",
    "tuneloop.tools.benchmarks.scoring",
)


def kept_profile(home: Home, setup: Setup, dataset: str, shown: list[Item]) -> dict[str, Any]:
    """The profile of one of the run's data sets against the benchmark's open items `shown`, found or made."""
    contents = (setup.dataset_fingerprints[dataset], setup.benchmark_fingerprint, *(item.id for item in shown))
    file = home.root / "profiles" / f"{digest(dataset, *contents, code())}.json"
    if not file.is_file():
        profile = profile_dataset(setup.datasets[dataset], setup.benchmark, shown)
        write_json(file, {**profile.model_dump(mode="json"), "name": dataset})
    found: dict[str, Any] = read_json(file)
    return found


@cache
def code() -> str:
    """Hash of everything that looks at the data."""
    specs = [importlib.util.find_spec(name) for name in LOOKS]
    beside = [Path(spec.origin) for spec in specs if spec is not None and spec.origin]
    return digest(*(path.read_bytes() for path in (*sorted(Path(__file__).parent.glob("*.py")), *beside)))
