"""`tuneloop data check`: a finished training file through the data gate."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tuneloop.core.settings import load_settings

if TYPE_CHECKING:
    from tuneloop.tools.data_gate.report import GateReport


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--benchmark", required=True, help="The first decides how answers must look; several with commas.")
@click.option(
    "--model", help="Whose tokenizer counts lengths: a name, a folder or a hub id.  [default: none are counted]"
)
@click.option("--drop-overlaps", is_flag=True, help="Count rows with validation items instead of refusing them.")
@click.option("--json", "as_json", is_flag=True, help="One JSON value on stdout, for scripts.")
def check(file: Path, benchmark: str, model: str | None, drop_overlaps: bool, as_json: bool) -> None:
    """Check FILE, a JSON list of Alpaca records, as a run's data gate does. Nothing is changed.

    Fields, empty and repeated rows, lengths, whether the scorer finds answers, overlaps with validation and test of the
    benchmarks. Exit code 0, or 2 with an error.
    """
    from tuneloop.cli.data_overlap import resolve_benchmarks
    from tuneloop.tools.benchmark_items.folder import render_prompt, select_validation
    from tuneloop.tools.contamination.splits import make_guard
    from tuneloop.tools.data_gate.gate import run_gate
    from tuneloop.tools.hub import models
    from tuneloop.tools.raw_data.languages import main_script

    settings = load_settings()
    folders = resolve_benchmarks(benchmark, settings)
    first = folders[0].benchmark
    shown = select_validation(folders[0]).shown
    root = models.resolve_model(model, settings, ignore_progress).root if model else None
    with tempfile.TemporaryDirectory() as out:
        report = run_gate(
            file,
            Path(out),
            row_limit=sys.maxsize,
            benchmark=first,
            golds=[item.answer for item in shown],
            guard=make_guard(folders, None),
            drop_overlaps=drop_overlaps,
            tokenizer=root and root / "tokenizer.json",
            cutoff_len=None,
            usual_script=main_script([render_prompt(first, item) for item in shown]),
        )
    click.echo(
        report.model_dump_json(indent=1) if as_json else "\n".join(report_lines(report, counted=root is not None))
    )
    sys.exit(0 if report.ok else 2)


def ignore_progress(what: str, done: int, total: int) -> None:
    """A model that is fetched says nothing of it."""


def report_lines(report: GateReport, *, counted: bool) -> list[str]:
    """The report for people."""
    dropped = ", ".join(f"{count} {why}" for why, count in report.dropped.items()) or "none"
    lengths = report.lengths
    found = [
        f"rows       {report.rows} of {report.read}; left out: {dropped}",
        f"repeated   {report.exact_duplicates} exactly, {report.near_duplicates} nearly, {report.reasked} asked again",
        f"answers    {report.parsed:g} % are found by the scorer",
    ]
    if counted:
        found.append(
            f"tokens     {lengths.p50} median, {lengths.p99} 99 %, {lengths.longest} longest, {lengths.total} in all"
        )
    return [
        *found,
        *(f"warning    {text}" for text in report.warnings),
        *(f"error      {text}" for text in report.errors),
    ]
