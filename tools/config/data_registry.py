"""Data sets that a config names, against dataset_info.json: registered, there, of a kind that the stage can use."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tuneloop.tools.config.config_text import UnreadableError, read_object
from tuneloop.tools.config.context import ConfigContext
from tuneloop.tools.config.data_columns import Columns, is_tag, required_columns
from tuneloop.tools.config.data_records import DataSample, read_sample
from tuneloop.tools.config.finalize import planned_steps
from tuneloop.tools.config.finding import KeyProblem
from tuneloop.tools.config.rules_training import step_problems
from tuneloop.tools.config.templates import MEDIA
from tuneloop.tools.data_gate.media import require_media
from tuneloop.tools.data_gate.records import Schema, TrainingRow, find_empty_part, json_kind, schema_of_columns

INFO = "dataset_info.json"
KINDS = {"arrow": "arrow", "csv": "csv", "json": "json", "jsonl": "json", "parquet": "parquet", "txt": "text"}
FORMATS = ("alpaca", "sharegpt", "openai")
HUBS = ("hf_hub_url", "ms_hub_url", "om_hub_url")
RANKED = ("rm", "dpo")
COLUMNS = frozenset(f.name for f in fields(Columns) if not is_tag(f.name)) - {"formatting", "ranking"}
TAGS = frozenset(f.name for f in fields(Columns) if is_tag(f.name))
KEYS = frozenset({"file_name", "formatting", "ranking", "columns", "tags", "num_samples", "split", "subset", "folder"})
REMOTE = frozenset({*HUBS, "script_url", "cloud_file_name"})  # read too, but never what a wrong key is taken for
MANY = 8  # names shown where none is near


@dataclass(frozen=True)
class NamedDataset:
    """One data set of the config: `key` names it, `entry` is its registration."""

    key: str
    name: str
    entry: Mapping[str, Any]
    folder: Path


def check_datasets(s: ConfigContext) -> Iterator[KeyProblem]:
    """Everything that is wrong with the config's data sets."""
    if s.in_run and s.data is None:
        return
    if s.trains and not s.in_run and not s.on("dataset"):
        yield "error", "dataset", "is missing: write the name of a data set of dataset_info.json"
    if not s.on("dataset") and not s.on("eval_dataset"):
        return
    folder = str(s.get("dataset_dir"))
    if s.data is None and (folder == "ONLINE" or folder.startswith("REMOTE:")):
        yield "warning", "dataset_dir", "fetches data from the network, which nothing checks here"
        return
    at = s.data or s.path(folder)
    if s.data is None and not s.set("dataset_dir") and not at.exists():
        yield "warning", "dataset_dir", f"{at}, where it points by default, is not here: the data are not checked"
        return
    try:
        info = read_object(at / INFO)
    except UnreadableError as e:
        yield "error", "dataset_dir", f"{e}; right is a folder with {INFO}"
        return
    if not isinstance(info, dict):
        yield "error", "dataset_dir", f"{at / INFO} is no mapping of names to data sets"
        return
    yield from _named(s, info, at)


def _named(s: ConfigContext, info: Mapping[str, Any], folder: Path) -> Iterator[KeyProblem]:
    for key in ("dataset", "eval_dataset"):
        rows: int | None = 0
        for name in s.names(key) if s.on(key) or s.config.values.get(key) == "" else ():
            entry = info.get(name)
            if not isinstance(entry, dict):
                yield "error", key, _unregistered(name, entry, info)
                return
            found = list(_entry(s, NamedDataset(key, name, entry, folder)))
            yield from found
            if any(level == "error" for level, _, _ in found):
                return
            rows = _sum(rows, _rows(s, folder, entry))
        if key == "dataset" and rows:
            yield from _check_row_count(s, rows)


def _unregistered(name: str, entry: Any, info: Mapping[str, Any]) -> str:
    if entry is not None:
        return f"{name!r} is registered as {type(entry).__name__} in {INFO}; right is a mapping with file_name"
    close = difflib.get_close_matches(name, info, n=1)
    hint = (
        f"did you mean {close[0]}?"
        if close
        else f"right is one of {', '.join(list(info)[:MANY]) or 'none: it is empty'}"
    )
    return f"{name!r} is not in {INFO}; {hint}"


def entry_problem(entry: Mapping[str, Any]) -> str:
    """What the engine cannot use of a registration, whatever its data; empty when it can."""
    if (formatting := entry.get("formatting", "alpaca")) not in FORMATS:
        return f"formatting {formatting!r} in {INFO} is not among {', '.join(FORMATS)}"
    for what, known in (("columns", COLUMNS), ("tags", TAGS)):
        given = entry.get(what, {})
        wrong = [name for name in given if name not in known] if isinstance(given, dict) else [what]
        if wrong:
            near = difflib.get_close_matches(str(wrong[0]), known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"right is {', '.join(sorted(known))}"
            return f"{wrong[0]!r} in {what} of {INFO} has no effect; {hint}"
    for key in entry.keys() - KEYS - REMOTE:
        if meant := difflib.get_close_matches(str(key), KEYS - entry.keys(), n=1, cutoff=0.7):
            return f"{key!r} in {INFO} has no effect; did you mean {meant[0]}?"
    if type(entry.get("ranking", False)) is not bool:
        return f"ranking {entry['ranking']!r} in {INFO} is {json_kind(entry['ranking'])}; right is true or false"
    count = entry.get("num_samples")
    if count is not None and (type(count) is not int or count < 1):
        return f"num_samples {count!r} in {INFO} takes no rows; write a whole number above 0"
    return ""


def _entry(s: ConfigContext, d: NamedDataset) -> Iterator[KeyProblem]:
    entry = d.entry
    if wrong := entry_problem(entry):
        yield "error", d.key, f"{d.name}: {wrong}"
        return
    ranking = entry.get("ranking", False)
    if bool(ranking) != (s.stage in RANKED):
        yield "error", d.key, _kind(d.name, s.stage)
        return
    if any(hub in entry for hub in HUBS) or "cloud_file_name" in entry:
        level = "error" if s.in_run else "warning"
        yield level, d.key, f"{d.name} is fetched from the network, which nothing checks here"  # type: ignore[misc]
    elif "script_url" in entry:
        yield (
            "error",
            d.key,
            f"{d.name} is loaded by a script, which the engine's package datasets does not run; name a file",
        )
    else:
        yield from _file(s, d)


def _kind(name: str, stage: str) -> str:
    if stage in RANKED:
        return f"{name} holds no pairs, and stage: {stage} needs them; name one with ranking: true, chosen and rejected"
    return f"{name} holds pairs (ranking: true), which stage: {stage} cannot use; write stage: dpo or rm, or another data set"


def _file(s: ConfigContext, d: NamedDataset) -> Iterator[KeyProblem]:
    name = d.entry.get("file_name")
    if not isinstance(name, str) or not name:
        yield "error", d.key, f"{d.name} has no file_name in {INFO}"
        return
    path = d.folder / name
    if not path.exists():
        yield "error", d.key, f"{d.name}: {path} is missing"
        return
    files = data_files(path)
    kinds = {KINDS.get(file.suffix[1:]) for file in files}
    if not files:
        yield "error", d.key, f"{d.name}: {path} is an empty folder"
    elif None in kinds:
        wrong = next(file for file in files if file.suffix[1:] not in KINDS)
        yield (
            "error",
            d.key,
            f"{d.name}: {wrong.name} is of no kind that the engine reads; right is {', '.join(sorted(KINDS))}",
        )
    elif len(kinds) > 1:
        yield "error", d.key, f"{d.name}: {path} holds files of several kinds; right is one kind"
    elif not os.access(files[0], os.R_OK):
        yield "error", d.key, f"{d.name}: {files[0]} cannot be read"
    elif d.entry.get("split", "train") != "train":
        yield "error", d.key, f"{d.name}: split {d.entry['split']!r} in {INFO} is not there, a file has train only"
    else:
        yield from _contents(s, d, read_sample(files[0]))


def data_files(path: Path) -> list[Path]:
    """The file, or the files of a folder, sorted."""
    return sorted(path.iterdir()) if path.is_dir() else [path]


def _contents(s: ConfigContext, d: NamedDataset, sample: DataSample) -> Iterator[KeyProblem]:
    if sample.broken:
        yield "error", d.key, f"{d.name}: {sample.broken}"
        return
    media = s.path(str(s.get("media_dir"))) if s.set("media_dir") else d.folder
    folders = (media,) if s.in_run else (media, s.here)
    if wrong := records_problem(sample, Columns.of(d.entry), s.stage, folders):
        yield "error", d.key, f"{d.name}: {wrong}"
    yield from _check_media(s, d, sample)
    alone = len(s.names(d.key)) == 1
    if alone and s.stage == "pt" and s.get("packing") is not False and sample.size < s.get("cutoff_len"):
        yield (
            "error",
            d.key,
            f"{d.name}: {sample.path.name} has less text than one block of cutoff_len {s.get('cutoff_len')}",
        )


def records_problem(sample: DataSample, columns: Columns, stage: str, media: tuple[Path, ...]) -> str:
    """Why these records cannot be trained on in that stage, with images and other files below `media`; empty when they can.

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
    schema = schema if stage == "pt" else require_media(schema, *media)
    found = ((n, _record_problem(record, schema, stage)) for n, record in enumerate(sample.records, 1))
    return next((f"record {n} of {sample.path.name}: {why}" for n, why in found if why), "")


def _record_problem(record: Mapping[str, Any], schema: Schema, stage: str) -> str:
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


def _check_media(s: ConfigContext, d: NamedDataset, sample: DataSample) -> Iterator[KeyProblem]:
    """Images, videos and audios for which the template has no place; a tokenizer's own template has none for any."""
    name, columns = s.get("template"), Columns.of(d.entry)
    template = s.catalog.templates.get(str(name))
    if s.stage == "pt" or (name is not None and template is None):
        return
    for medium in MEDIA:
        column = getattr(columns, f"{medium}s")
        held = column and any(isinstance(r, Mapping) and r.get(column) for r in sample.records)
        if held and (template is None or medium not in template.media):
            yield (
                "error",
                "template",
                f"{name or 'of the tokenizer'} has no place for the {medium}s of {d.name}; write one that has, such as qwen2_vl",
            )


def _rows(s: ConfigContext, folder: Path, entry: Mapping[str, Any]) -> int | None:
    """Rows that one data set gives; None where that is not known."""
    path = folder / str(entry.get("file_name"))
    if isinstance(entry.get("num_samples"), int):
        count: int | None = entry["num_samples"]
    elif not path.is_file():
        return None
    else:
        count = read_sample(path).rows
    most = s.get("max_samples")
    return min(count, most) if count is not None and isinstance(most, int) else count


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _check_row_count(s: ConfigContext, rows: int) -> Iterator[KeyProblem]:
    """Whether rows are left to train on."""
    held, batch = s.get("val_size"), s.get("per_device_train_batch_size")
    if s.set("streaming") or s.get("mix_strategy") != "concat":
        return
    left = rows - (int(held) if held >= 1 else -int(-rows * held // 1))
    if held and left < 1:
        yield "error", "val_size", f"{held:g} of {rows} rows leaves none to train on; write 0.1 or less"
    elif (
        s.set("dataloader_drop_last")
        and left < batch
        and s.stage in ("sft", "dpo", "rm", "kto")
        and not s.set("packing")
    ):
        yield (
            "error",
            "dataloader_drop_last",
            f"drops all {left} rows: they are fewer than per_device_train_batch_size {batch}",
        )
    elif s.trains and s.get("max_steps") < 0 and not s.set("packing", "neat_packing") and s.stage != "pt":
        # `max_samples` holds for each data set, and `rows` is their sum after it.
        yield from step_problems(s, planned_steps({**s.config.values, "max_samples": None}, rows))
