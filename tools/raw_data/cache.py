"""Profiles and inspections of data sets, computed once per machine, and their short form for a model."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import Item
from tuneloop.core.files import digest, read_json, read_model, write_json
from tuneloop.core.layout import Home
from tuneloop.core.run_spec import Setup
from tuneloop.tools.raw_data.client import shared_reader
from tuneloop.tools.raw_data.facts import Inspection
from tuneloop.tools.raw_data.filtered_view import DatasetView
from tuneloop.tools.raw_data.sample import bound_value

# Modules outside this folder that a profile depends on.
READ_BY = (
    "tuneloop.core.text",
    "tuneloop.core.records",
    "tuneloop.core.profile",
    "tuneloop.tools.scoring.answer_matching",
)


def dataset_view(setup: Setup, dataset: str) -> DatasetView | None:
    """What was found when sealed items were taken out of a data set of the run; None where nothing was looked for."""
    record = setup.views.get(dataset)
    return None if record is None else DatasetView.model_validate(read_json(record))


def cached_profile(home: Home, setup: Setup, dataset: str, shown: Sequence[Item]) -> dict[str, Any]:
    """The profile of one of the run's data sets against the items `shown`; found or made."""
    view = dataset_view(setup, dataset)
    overlapping = view.overlapping if view else {}
    prints = [placed.fingerprint for placed in setup.benchmarks]
    known = [f"{name} {numbers}" for name, numbers in overlapping.items()]
    contents = (setup.dataset_fingerprints[dataset], *prints, *known, *(item.id for item in shown))
    file = home.root / "profiles" / f"{digest(dataset, *contents, code_hash())}.json"
    if not file.is_file():
        profile = shared_reader().profile(setup.datasets[dataset], setup.benchmark, shown, overlapping)
        write_json(file, {**profile.model_dump(mode="json"), "name": dataset})
    found: dict[str, Any] = read_json(file)
    return found


@cache
def code_hash() -> str:
    """Hash of the code and the rules that read the data."""
    specs = [importlib.util.find_spec(name) for name in READ_BY]
    others = [Path(spec.origin) for spec in specs if spec is not None and spec.origin]
    here = (path for path in sorted(Path(__file__).parent.glob("*.*")) if path.is_file())
    return digest(*(path.read_bytes() for path in (*here, *others)))


FILES, COLUMNS, TREE, README = 10, 30, 40, 1500
LONGEST = 400  # characters of a text in a sample row


def cached_inspection(home: Home, setup: Setup, dataset: str) -> Inspection:
    """Facts about one of the run's data sets, tokens by the run's model; found or made."""
    key = digest("inspection", dataset, setup.dataset_fingerprints[dataset], setup.model_fingerprint, code_hash())
    file = home.root / "profiles" / f"{key}.json"
    if not file.is_file():
        model = setup.model_root
        tokenizer = model if (model / "tokenizer.json").is_file() else None
        found = shared_reader().inspect(setup.datasets[dataset], dataset, tokenizer)
        write_json(file, found.model_dump(mode="json"))
    return read_model(file, Inspection)


def inspection_page(found: Inspection, count: int, offset: int) -> dict[str, Any]:
    """A page of the parts, bounded; what was left out is counted."""
    parts = found.parts[offset : offset + count]
    return {
        "name": found.name,
        "rows": found.rows,
        "broken": found.broken,
        "bytes": found.bytes,
        "parts": [part_summary(part.model_dump(mode="json", exclude_none=True)) for part in parts],
        "parts_in_all": len(found.parts),
        "files_without_rows": [f.model_dump(mode="json") for f in found.empty_files[:FILES]],
        "readmes": {path: text[:README] for path, text in list(found.readmes.items())[:3]},
        "tree": "\n".join(found.tree.splitlines()[:TREE]),
    }


def part_summary(part: dict[str, Any]) -> dict[str, Any]:
    """One part with its first files and columns, and one sample row."""
    more = {"files_in_all": len(part["files"]), "columns_in_all": len(part["columns"]) + part.pop("more_columns")}
    cut = {"files": part["files"][:FILES], "columns": part["columns"][:COLUMNS]}
    return {**part, **more, **cut, "samples": [bound_value(row, LONGEST) for row in part["samples"][:1]]}
