"""A data set's profile, made once for a machine: it follows from the data, the benchmark and the code that looks."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tuneloop.core.benchmark import Item
from tuneloop.core.files import digest, read_json, write_json
from tuneloop.core.layout import Home
from tuneloop.core.setup import Setup
from tuneloop.tools.contamination import Guard
from tuneloop.tools.profiling.profile import profile_dataset

LOOKS = (
    "tuneloop.core.text",
    "tuneloop.core.raw",
    "tuneloop.core.records",
    "tuneloop.core.profile",
    "tuneloop.tools.benchmarks.scoring",
)

GUARD = ("contamination", "likeness")


def kept_profile(home: Home, setup: Setup, dataset: str, shown: Sequence[Item], guard: Guard) -> dict[str, Any]:
    """The profile of one of the run's data sets against the items `shown`, nothing of sealed ones; found or made."""
    prints = [placed.fingerprint for placed in setup.benchmarks]
    contents = (setup.dataset_fingerprints[dataset], *prints, guard.identity, *(item.id for item in shown))
    file = home.root / "profiles" / f"{digest(dataset, *contents, code())}.json"
    if not file.is_file():
        profile = profile_dataset(setup.datasets[dataset], setup.benchmark, shown, guard=guard)
        write_json(file, {**profile.model_dump(mode="json"), "name": dataset})
    found: dict[str, Any] = read_json(file)
    return found


@cache
def code() -> str:
    """Hash of everything that looks at the data."""
    specs = [importlib.util.find_spec(name) for name in LOOKS]
    beside = [Path(spec.origin) for spec in specs if spec is not None and spec.origin]
    here = Path(__file__).parent
    looking = [
        path for folder in (here, *(here.parent / name for name in GUARD)) for path in sorted(folder.glob("*.py"))
    ]
    return digest(*(path.read_bytes() for path in (*looking, *beside)))
