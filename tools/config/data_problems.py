"""What the engine cannot use of a data file's records: the first one that is wrong, by row and field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuneloop.tools.config.data_columns import Columns, required_columns
from tuneloop.tools.config.data_records import DataSample
from tuneloop.tools.data_gate.records import Schema, TrainingRow, find_empty_part, json_kind, schema_of_columns


def records_problem(sample: DataSample, columns: Columns, stage: str) -> str:
    """Why these records cannot be trained on in that stage; empty when they can.

    The engine drops some of them with a line in its log, fails at others, and trains on empty texts.
    """
    strange = next((n for n, record in enumerate(sample.records, 1) if not isinstance(record, dict)), None)
    if strange:
        return f"record {strange} of {sample.path.name} is no object; right is one object a record"
    for role, name in required_columns(columns, stage):
        if name is None:
            return f"no column is named for {role}, which stage: {stage} needs; name it in columns of dataset_info.json"
        if name not in sample.columns:
            have = ", ".join(sorted(sample.columns)[:10])
            return f"column {name!r} ({role}) is not in {sample.path.name}, which has {have}; name it in columns"
    schema = schema_of_columns(columns, answered=stage != "pt")
    found = ((n, _problem(record, schema, stage)) for n, record in enumerate(sample.records, 1))
    return next((f"record {n} of {sample.path.name}: {why}" for n, why in found if why), "")


def _problem(record: Mapping[str, Any], schema: Schema, stage: str) -> str:
    tag = record.get(schema.columns.kto_tag or "")
    if stage == "sft" and isinstance(tag, bool):
        return "is one half of a judgement (kto_tag), which stage: sft drops; write stage: kto"
    row = schema.read(record)
    if not isinstance(row, TrainingRow):
        return f"{row.field!r} {row.found}; right is {row.expected}".removeprefix("'' ")
    empty = find_empty_part(row)
    if empty == "no pair":
        c = schema.columns
        return f"{c.chosen!r} and {c.rejected!r} are the same; right is a better and a worse answer"
    if empty:
        name = schema.empty_field(empty, row)
        return f"{name!r} is {json_kind(record[name]) if record.get(name) is None else 'empty'}; right is text"
    return ""
