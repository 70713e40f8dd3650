"""`tuneloop run`: start a run and show it until it is finished."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from tuneloop.cli.drive import drive_in_terminal
from tuneloop.cli.notes import dotenv_notes, settings_notes
from tuneloop.cli.select_run import select_run
from tuneloop.core.run_spec import ApproveAt, SandboxKind
from tuneloop.core.settings import load_settings
from tuneloop.graph.lifecycle.drive import create_run
from tuneloop.tools.runs.manifest import repeated_spec
from tuneloop.tools.runs.spec import build_spec

EXAMPLES = """\b
Examples:
  tuneloop run --benchmark wordproblems --base-model tiny --loop-n 3
  tuneloop run --benchmark ./my_task --dataset ./raw.csv --base-model ./my_model --timeout 12h
  tuneloop run --benchmark gsm8k --base-model org/name --max-cost 5 --max-gpu-hours 8
  tuneloop run --repeat wordproblems-20260101-120000 --seed 2
  tuneloop run --loop-n 1 --json | jq .kind

\b
Names are catalog entries (tuneloop list benchmarks), folders or files, or hub ids like org/name. What is not given
comes from FT_* variables or .env. At a limit (--timeout, --max-...) you are asked for more where you sit at a terminal;
else the best model so far is tested and delivered. Docs: docs/budget.md, docs/own_task.md, docs/seeds.md.
"""
POSITIVE = click.IntRange(min=1)


@click.command(epilog=EXAMPLES)
@click.option(
    "--benchmark",
    help="What to become better at: a registered benchmark or a folder with benchmark.yaml. Of several, separated by "
    "commas, the first decides; all are reported.",
)
@click.option("--benchmark-description", help="Task and answer format in words, instead of the benchmark's own.")
@click.option("--base-model", "--model", "base_model", help="The model to fine-tune: a name, a folder or a hub id.")
@click.option(
    "--dataset", "datasets", multiple=True, help="Raw data; repeat it or separate with commas.  [default: by domain]"
)
@click.option("--upper-data-size-limit", type=POSITIVE, help="Training rows of one experiment.  [default: 2000]")
@click.option(
    "--drop-overlaps",
    is_flag=True,
    default=None,
    help="Drop training rows that hold validation items.  [default: refuse the recipe and name them]",
)
@click.option("--loop-n", type=POSITIVE, help="Experiments.  [default: unlimited]")
@click.option("--step-n", type=POSITIVE, help="Pause after so many nodes of the graph.")
@click.option("--timeout", metavar="TIME", help="Time for everything: seconds, or 90m, 12h, 2d.  [default: unlimited]")
@click.option(
    "--max-cost",
    metavar="USD",
    help="Money for models, asked by agents, data scripts and judge, e.g. 5 or 0.50 (US dollars, at the prices of "
    "docs/budget.md).  [default: unlimited]",
)
@click.option(
    "--max-tokens", metavar="N", help="Tokens of all these, in and out, e.g. 2M or 500k.  [default: unlimited]"
)
@click.option("--max-gpu-hours", metavar="H", help="GPUs times hours of all jobs, e.g. 8 or 2.5.  [default: unlimited]")
@click.option(
    "--max-regression",
    "guards",
    multiple=True,
    metavar="NAME:-POINTS",
    help="Not to be forgotten: points that NAME may lose, e.g. mmlu:-2.",
)
@click.option(
    "--seeds",
    type=POSITIVE,
    help="Trainings of the last two promoted recipes, as far as time and budget reach.  [default: 1]",
)
@click.option(
    "--validation-share",
    type=float,
    metavar="SHARE",
    help="Of an experiment's time, what measuring it on validation may take.  [default: 0.2]",
)
@click.option("--seed", type=click.IntRange(min=0), help="Seed of sampling and training.  [default: 1]")
@click.option("--sandbox", type=click.Choice(get_args(SandboxKind)), help="Where jobs run.  [default: auto]")
@click.option("--allow-unsandboxed", is_flag=True, default=None, help="Run generated code without protection.")
@click.option(
    "--approve",
    type=click.Choice(get_args(ApproveAt)),
    help="Ask before each experiment's plan is carried out, or before each training.  [default: never]",
)
@click.option("--run-id", help="Name of the run.  [default: benchmark and time]")
@click.option("--repeat", metavar="RUN", help="Repeat a run from its manifest; other options change it.")
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
@click.pass_context
def command(
    ctx: click.Context, /, step_n: int | None, run_id: str | None, repeat: str | None, as_json: bool, **given: Any
) -> None:
    """Start a run: look at the data, train, evaluate, learn, go round again, prove the result on a sealed test."""
    settings = load_settings()
    repeated = repeated_spec(select_run(settings.home, repeat)) if repeat else None
    spec = build_spec(given, settings, repeated)
    run = create_run(spec, settings, run_id)
    for note in (*dotenv_notes(Path(".env")), *([] if repeat else settings_notes(settings))):
        click.echo(f"note: {note}", err=True)
    click.echo(f"run {run.id} in {run.root}", err=True)
    ctx.exit(drive_in_terminal(run, settings, step_n=step_n, as_json=as_json))
