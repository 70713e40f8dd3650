"""A data set's inspection, made once for a machine, and the short form of it that a model reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuneloop.core.files import digest, read_json, write_json
from tuneloop.core.layout import Home
from tuneloop.core.setup import Setup
from tuneloop.tools.contamination import Guard
from tuneloop.tools.contamination.withheld import told
from tuneloop.tools.inspecting.facts import Inspection
from tuneloop.tools.inspecting.inspect import inspect
from tuneloop.tools.inspecting.sample import shown
from tuneloop.tools.profiling.kept import code

FILES, COLUMNS, TREE, README = 10, 30, 40, 1500
LONGEST = 400  # characters of a text in a sample row


def kept_inspection(home: Home, setup: Setup, dataset: str, guard: Guard) -> Inspection:
    """Facts about one of the run's data sets, tokens by the run's model, nothing of sealed items; found or made."""
    here = sorted(Path(__file__).parent.glob("*.*"))
    looks = digest(code(), *(path.read_bytes() for path in here if path.is_file()))
    prints = (setup.dataset_fingerprints[dataset], *(placed.fingerprint for placed in setup.benchmarks))
    key = digest("inspection", dataset, *prints, guard.identity, setup.model_fingerprint, looks)
    file = home.root / "profiles" / f"{key}.json"
    if not file.is_file():
        model = setup.model_root
        tokenizer = model if (model / "tokenizer.json").is_file() else None
        write_json(file, inspect(setup.datasets[dataset], dataset, tokenizer, None, guard).model_dump(mode="json"))
    return Inspection.model_validate(read_json(file))


def brief(found: Inspection, count: int, offset: int) -> dict[str, Any]:
    """A page of the parts, bounded; what was left out is counted."""
    parts = found.parts[offset : offset + count]
    return {
        "name": found.name,
        "rows": found.rows,
        "broken": found.broken,
        "bytes": found.bytes,
        "parts": [brief_part(part.model_dump(mode="json", exclude_none=True)) for part in parts],
        "parts_in_all": len(found.parts),
        "files_without_rows": [f.model_dump(mode="json") for f in found.empty_files[:FILES]],
        "readmes": {path: text[:README] for path, text in list(found.readmes.items())[:3]},
        "tree": "\n".join(found.tree.splitlines()[:TREE]),
    }


def brief_part(part: dict[str, Any]) -> dict[str, Any]:
    """One part with its first files and columns, and one sample row."""
    held = told(part.pop("withheld"), "sampled rows")
    more = {"files_in_all": len(part["files"]), "columns_in_all": len(part["columns"]) + part.pop("more_columns")}
    cut = {"files": part["files"][:FILES], "columns": part["columns"][:COLUMNS]}
    return {**part, **held, **more, **cut, "samples": [shown(row, LONGEST) for row in part["samples"][:1]]}
