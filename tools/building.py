"""Take what a data script wrote through the data gate: on samples to fail early, on everything to train on."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneloop.core.errors import RecipeError
from tuneloop.core.files import digest_file, read_json
from tuneloop.core.layout import ExperimentFolder
from tuneloop.tools.benchmarks import BenchmarkFolder, prompt, validation
from tuneloop.tools.contamination.splits import guard_of
from tuneloop.tools.gate.data import gate
from tuneloop.tools.gate.languages import main_script
from tuneloop.tools.gate.report import GateReport
from tuneloop.tools.gate.stream import stream_rows
from tuneloop.tools.gate.wrapping import Wrapping, read_wrapping
from tuneloop.tools.params.config_text import ConfigError, parse_config
from tuneloop.tools.params.finalize import write_dataset_info
from tuneloop.tools.params.installed import installed_catalog
from tuneloop.tools.scripts import script_output
from tuneloop.tools.workbench import Workbench


def is_built(bench: Workbench, folder: ExperimentFolder) -> bool:
    """Whether `data/` holds what the present script writes; data of an earlier script are not believed."""
    raw, report = script_output(bench, folder, debug=False) / "data.json", folder.data / "report.json"
    return (
        raw.is_file() and not raw.is_symlink() and report.is_file() and read_json(report)["source"] == digest_file(raw)
    )


def gate_data(bench: Workbench, folder: ExperimentFolder, raw: Path) -> GateReport:
    """Every record; `data/data.json`, then `data/report.json`. Raises RecipeError with what is wrong and where."""
    write_dataset_info(folder.data)
    return _passed(_gate(bench, folder, raw, folder.data))


def gate_sample(bench: Workbench, folder: ExperimentFolder, raw: Path) -> GateReport:
    """The rows of a try with --debug, through the same gate. Raises RecipeError likewise."""
    return _passed(_gate(bench, folder, raw, folder.work / "sample"))


def _gate(bench: Workbench, folder: ExperimentFolder, raw: Path, out: Path) -> GateReport:
    known = _known(bench.benchmarks)
    return gate(
        raw,
        out,
        row_limit=bench.spec.upper_data_size_limit,
        benchmark=bench.setup.benchmark,
        golds=known.golds,
        guard=guard_of(bench.benchmarks, bench.validation_limit),
        drop_overlaps=bench.spec.drop_overlaps,
        tokenizer=bench.setup.model_root / "tokenizer.json",
        cutoff_len=cutoff(bench, folder),
        wrapping=wrapping(bench, folder),
        usual_script=known.script,
    )


def _passed(report: GateReport) -> GateReport:
    if report.errors:
        raise RecipeError("\n".join(report.errors), culprit="data")
    return report


@dataclass(frozen=True)
class _Known:
    """The deciding benchmark, prepared for the gate; `script`: what its prompts are written in; `golds`: answers shown."""

    script: str
    golds: tuple[str, ...]


@functools.lru_cache(maxsize=4)
def _known(benchmarks: tuple[BenchmarkFolder, ...]) -> _Known:
    first = benchmarks[0]
    shown = validation(first).shown
    golds = tuple(item.answer for item in shown)
    return _Known(main_script([prompt(first.benchmark, item) for item in shown]), golds)


def leaked(bench: Workbench, folder: ExperimentFolder, most: int = 20) -> tuple[str, ...]:
    """Instructions that the gate dropped because they overlap with the test; for the report, when the test was read.

    None of them holds an item of the unseen half: a run that goes on measures with it again.
    """
    raw = script_output(bench, folder, debug=False) / "data.json"
    if not raw.is_file():
        return ()
    guard = guard_of(bench.benchmarks, bench.validation_limit)
    hits = zip(stream_rows(raw), guard.find(stream_rows(raw)), strict=True)
    return tuple(itertools.islice((row["instruction"] for row, hit in hits if hit and hit.split == "test"), most))


def cutoff(bench: Workbench, folder: ExperimentFolder) -> int:
    """Tokens of a record that are trained on: the config's `cutoff_len`, else the engine's own."""
    value = _values(folder).get("cutoff_len")
    if isinstance(value, int):
        return value
    usual = installed_catalog(bench.engine("llamafactory")).parameters["cutoff_len"].default
    assert isinstance(usual, int)
    return usual


def wrapping(bench: Workbench, folder: ExperimentFolder) -> Wrapping | None:
    """What the config's template puts around a record; None where it names none."""
    name = _values(folder).get("template")
    if not isinstance(name, str):
        return None
    source = installed_catalog(bench.engine("llamafactory")).factory / "data/template.py"
    declared = bench.setup.model_root / "tokenizer_config.json"
    return read_wrapping(source, name, bos=declared.is_file() and bool(read_json(declared).get("bos_token")))


def _values(folder: ExperimentFolder) -> Mapping[str, Any]:
    try:
        return parse_config(folder.config.read_text()).values
    except (FileNotFoundError, ConfigError):
        return {}
