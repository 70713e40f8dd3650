"""chemcot: chemical reasoning in steps about molecules and reactions; one of its files is mended."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import Dataset, Source
from tuneloop.core.files import read_json, write_json

DATASET = Dataset(
    name="chemcot",
    domain="chemistry",
    description=(
        "23,223 questions about SMILES in JSON lists, a file a subtask (16), in four folders below chemcotbench-cot: id, query, "
        "task, subtask, struct_cot (JSON text with named steps and the result), raw_cot (prose), meta (JSON text with the "
        "reference answer)."
    ),
    licence="MIT",
    source=Source(repo="OpenMol/ChemCoTDataset", files=("chemcotbench-cot/*.json", "README.md")),
    rows=23_223,
    parts={"mol_und": 6_319, "mol_edit": 4_497, "mol_opt": 5_587, "rxn": 6_820},
    teaches=("chemcotbench",),
    reasoning="full",
    quality=(
        "Medium to high: distilled from large models, of which experts found more than 90 of 100 samples right; wrong molecules "
        "remain and can be found by parsing. The source may ask for its licence to be accepted."
    ),
    gaps="No rows for equivalence (mol_und) nor for retro, nepp and mechsel (reaction).",
)
FENCE = re.compile(r"\A\s*```\w*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)
DAMAGED = "chemcotbench-cot/rxn/rcr.json"


def tidy(folder: Path) -> None:
    """Give the rows of `rcr.json` the fields that all other files have: `gt` lies in meta, `cot_result` is struct_cot unfenced."""
    file = folder / DAMAGED
    if file.is_file():
        write_json(file, [mended(row) for row in read_json(file)])


def mended(row: dict[str, Any]) -> dict[str, Any]:
    """A row in the common form; one that has it already stays as it is."""
    row = dict(row)
    if "gt" in row:
        meta = row.get("meta") or {}
        known = json.loads(meta) if isinstance(meta, str) else meta
        row["meta"] = json.dumps({**known, "gt": row.pop("gt")}, ensure_ascii=False)
    if "cot_result" in row:
        text = row.pop("cot_result")
        found = FENCE.match(text) if isinstance(text, str) else None
        row["struct_cot"] = found[1] if found else text
    return row
