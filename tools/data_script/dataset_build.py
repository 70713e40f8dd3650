"""Take what a data script wrote through the data gate: on samples to fail early, on everything to train on."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tuneloop.core.errors import RecipeError
from tuneloop.core.files import digest_file, read_json, read_model
from tuneloop.core.layout import ExperimentFolder
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder, render_prompt, select_validation
from tuneloop.tools.config.config_text import readable_train_config
from tuneloop.tools.config.finalize import write_dataset_info
from tuneloop.tools.config.installed import installed_catalog
from tuneloop.tools.config.model_card import read_model_card
from tuneloop.tools.contamination.splits import make_guard
from tuneloop.tools.data_gate.chat_template import ChatTemplate, read_chat_template
from tuneloop.tools.data_gate.gate import run_gate
from tuneloop.tools.data_gate.report import GateReport
from tuneloop.tools.data_script.run import LARGEST_DATA, refuse_output, script_output
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.raw_data.languages import main_script

UNENDED = (
    "template {} ends no answer, and no file of the base model names its end of text: the model will not learn to stop; "
    "right is a template that ends answers, or outputs that the script ends"
)


def is_dataset_built(run_tools: RunTools, folder: ExperimentFolder) -> bool:
    """Whether `data/` holds what the present script writes, ended as the present template wants it."""
    raw, report = script_output(run_tools, folder, debug=False) / "data.json", folder.data / "report.json"
    if not report.is_file() or refuse_output(raw, LARGEST_DATA):
        return False
    told = read_model(report, GateReport)
    return (told.source, told.ending) == (digest_file(raw), output_ending(run_tools, folder))


def gate_data(run_tools: RunTools, folder: ExperimentFolder, raw: Path) -> GateReport:
    """Every record; `data/data.json`, then `data/report.json`. Raises RecipeError with what is wrong and where."""
    write_dataset_info(folder.data)
    return _check_report(_gate(run_tools, folder, raw, folder.data))


def gate_sample(run_tools: RunTools, folder: ExperimentFolder, raw: Path) -> GateReport:
    """The rows of a try with --debug, through the same gate. Raises RecipeError likewise."""
    return _check_report(sample_report(run_tools, folder, raw))


def sample_report(run_tools: RunTools, folder: ExperimentFolder, raw: Path) -> GateReport:
    """What the gate finds in the rows of a try; nothing of it is kept of a finished experiment."""
    if folder.result.is_file():
        with tempfile.TemporaryDirectory() as place:
            return _gate(run_tools, folder, raw, Path(place) / "sample")
    return _gate(run_tools, folder, raw, folder.work / "sample")


def _gate(run_tools: RunTools, folder: ExperimentFolder, raw: Path, out: Path) -> GateReport:
    known = _gate_benchmark(run_tools.benchmarks)
    template, ending = chat_template(run_tools, folder), output_ending(run_tools, folder)
    return run_gate(
        raw,
        out,
        row_limit=run_tools.spec.upper_data_size_limit,
        benchmark=run_tools.setup.benchmark if run_tools.spec.evaluated else None,
        golds=known.golds,
        guard=make_guard(run_tools.benchmarks, run_tools.validation_limit),
        drop_overlaps=not run_tools.spec.refuse_overlaps,
        tokenizer=run_tools.setup.model_root / "tokenizer.json",
        cutoff_len=cutoff_len(run_tools, folder),
        wrapping=template,
        ending=ending,
        warnings=(UNENDED.format(template.name),) if template and template.endless and not ending else (),
        usual_script=known.script,
    )


def _check_report(report: GateReport) -> GateReport:
    if report.errors:
        raise RecipeError("\n".join(report.errors), culprit="data")
    return report


@dataclass(frozen=True)
class _GateBenchmark:
    """The deciding benchmark, prepared for the gate; `script`: what its prompts are written in; `golds`: answers shown."""

    script: str
    golds: tuple[str, ...]


@functools.lru_cache(maxsize=4)
def _gate_benchmark(benchmarks: tuple[BenchmarkFolder, ...]) -> _GateBenchmark:
    first = benchmarks[0]
    shown = select_validation(first).shown
    golds = tuple(item.answer for item in shown)
    return _GateBenchmark(main_script([render_prompt(first.benchmark, item) for item in shown]), golds)


def cutoff_len(run_tools: RunTools, folder: ExperimentFolder) -> int:
    """Tokens of a record that are trained on: the config's `cutoff_len`, else the engine's own."""
    value = readable_train_config(folder).values.get("cutoff_len")
    if isinstance(value, int):
        return value
    usual = installed_catalog(run_tools.engine("llamafactory")).parameters["cutoff_len"].default
    assert isinstance(usual, int)
    return usual


def chat_template(run_tools: RunTools, folder: ExperimentFolder) -> ChatTemplate | None:
    """What the config's template puts around a record; None where it names none."""
    name = readable_train_config(folder).values.get("template")
    if not isinstance(name, str):
        return None
    source = installed_catalog(run_tools.engine("llamafactory")).factory / "data/template.py"
    declared = run_tools.setup.model_root / "tokenizer_config.json"
    return read_chat_template(source, name, bos=declared.is_file() and bool(read_json(declared).get("bos_token")))


def output_ending(run_tools: RunTools, folder: ExperimentFolder) -> str:
    """What outputs end with in the data: the tokenizer's end of text where the config's template ends no answer, else ""."""
    template = chat_template(run_tools, folder)
    return read_model_card(run_tools.setup.model_root).end_of_text if template and template.endless else ""
