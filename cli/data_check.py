"""`tuneloop data check`: a finished training file through the data gate."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuneloop.core.files import json_text
from tuneloop.core.formatting import plain_lines
from tuneloop.core.settings import Settings, load_settings

if TYPE_CHECKING:
    from tuneloop.tools.data_gate.report import GateReport


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--benchmark", help="The first decides how answers must look; several with commas.  [default: none]")
@click.option(
    "--model", help="Whose tokenizer counts lengths: a name, a folder or a hub id.  [default: none are counted]"
)
@click.option("--drop-overlaps", is_flag=True, help="Count rows with validation items instead of refusing them.")
@click.option("--json", "as_json", is_flag=True, help="One JSON value on stdout, for scripts.")
def check(file: Path, benchmark: str | None, model: str | None, drop_overlaps: bool, as_json: bool) -> None:
    """Check FILE, a JSON list or JSON lines, as a run's data gate does. Nothing is changed.

    Alpaca, ShareGPT, preference and KTO forms, as dataset_info.json beside FILE registers it, else as its rows look. Fields,
    empty and repeated rows, images, videos and audios, the row limit (FT_UPPER_DATA_SIZE_LIMIT), lengths; with --benchmark
    also whether the scorer finds answers, and overlaps with validation and test. Exit code 0, or 2 with an error.
    """
    from tuneloop.tools.data_gate.gate import run_gate
    from tuneloop.tools.data_gate.registration import registration_of
    from tuneloop.tools.hub import models

    settings = load_settings()
    registration = registration_of(file)
    root = models.resolve_model(model, settings, ignore_progress, unpickle=False).root if model else None
    with tempfile.TemporaryDirectory() as out:
        report = run_gate(
            file,
            Path(out),
            row_limit=settings.upper_data_size_limit,
            drop_overlaps=drop_overlaps,
            tokenizer=root and root / "tokenizer.json",
            cutoff_len=None,
            registration=registration,
            strict=True,
            media=(file.parent, Path()),
            **judged_by(benchmark, settings),
        )
    shown = report_lines(report, registration, counted=root is not None, scored=benchmark is not None)
    click.echo(json_text(report.model_dump(mode="json")) if as_json else plain_lines("\n".join(shown)))
    sys.exit(0 if report.ok else 2)


def judged_by(benchmark: str | None, settings: Settings) -> dict[str, Any]:
    """What the gate compares rows with; without a benchmark nothing."""
    if benchmark is None:
        return {"benchmark": None, "guard": None}
    from tuneloop.cli.data_overlap import resolve_benchmarks
    from tuneloop.tools.benchmark_items.folder import render_prompt, select_validation
    from tuneloop.tools.contamination.splits import make_guard
    from tuneloop.tools.raw_data.languages import main_script

    folders = resolve_benchmarks(benchmark, settings)
    first, shown = folders[0].benchmark, select_validation(folders[0]).shown
    return {
        "benchmark": first,
        "golds": [item.answer for item in shown],
        "guard": make_guard(folders, None),
        "usual_script": main_script([render_prompt(first, item) for item in shown]),
    }


def ignore_progress(what: str, done: int, total: int) -> None:
    """A model that is fetched says nothing of it."""


def report_lines(report: GateReport, registration: Mapping[str, Any], *, counted: bool, scored: bool) -> list[str]:
    """The report for people."""
    dropped = ", ".join(f"{count} {why}" for why, count in report.dropped.items()) or "none"
    lengths = report.lengths
    form = "pairs" if registration.get("ranking") else registration.get("formatting", "alpaca")
    found = [
        f"read as    {form}: {', '.join(map(str, registration.get('columns', {}).values())) or 'instruction, input, output'}",
        f"rows       {report.rows} of {report.read}; left out: {dropped}",
        f"repeated   {report.exact_duplicates} exactly, {report.near_duplicates} nearly, {report.reasked} asked again",
    ]
    if scored:
        found.append(f"answers    {report.parsed:g} % are found by the scorer")
    if counted:
        found.append(
            f"tokens     {lengths.p50} median, {lengths.p99} 99 %, {lengths.longest} longest, {lengths.total} in all"
        )
    return [
        *found,
        *(f"warning    {text}" for text in report.warnings),
        *(f"error      {text}" for text in report.errors),
    ]
