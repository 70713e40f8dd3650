"""`tuneloop run`: start a run and show it until it is finished."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.run_spec import AUTO, ApproveAt, ExecutorKind, OnStop, RunSpec, SandboxKind
from tuneloop.core.setting_values import TrackerName

if TYPE_CHECKING:
    from tuneloop.core.settings import Settings

EXAMPLES = """\b
Examples:
  tuneloop run --benchmark wordproblems --base-model tiny --loop-n 3
  tuneloop run --benchmark ./my_task --dataset ./raw.csv --base-model ./my_model --timeout 12h
  tuneloop run --benchmark gsm8k --base-model org/name --max-cost 5 --max-gpu-hours 8
  tuneloop run --repeat wordproblems-20260101-120000 --seed 2
  tuneloop run --loop-n 1 --json | jq .kind
  tuneloop run --benchmark gsm8k --base-model org/name --dry-run

\b
Names are catalog entries (tuneloop list benchmarks), folders or files, or hub ids like org/name. What is not given
comes from FT_* variables or .env; a benchmark and a base model that nothing names are asked for at a terminal;
elsewhere the benchmark is aime25, and the run chooses the model. Without a limit a run goes on until it is stopped.
At a limit (--timeout, --max-...) you are asked for more where you sit at a terminal; else the best model so far is
tested and delivered.
Docs: docs/budget.md, docs/own_task.md, docs/seeds.md.
"""
POSITIVE = click.IntRange(min=1)
FALLBACK_BENCHMARK = "aime25"
UNNAMED = (
    f"WARNING: no benchmark is named, so it is {FALLBACK_BENCHMARK}; another: --benchmark NAME (tuneloop list benchmarks), "
    "the embedded one: --benchmark wordproblems"
)


@click.command(epilog=EXAMPLES)
@click.option(
    "--benchmark",
    help="What to become better at: a registered benchmark or a folder with benchmark.yaml, here or at s3://bucket/path. Of "
    "several, separated by commas, the first decides; all are reported; none: one training, not evaluated.  "
    "[default: FT_TARGET_BENCHMARK, FT_BENCHMARK_DATASETS, else aime25]",
)
@click.option("--benchmark-description", help="Task and answer format in words.  [default: the benchmark's own]")
@click.option(
    "--base-model",
    "--model",
    "base_model",
    help="The model to fine-tune: a name, a folder or a hub id.  [default: FT_BASE_MODEL; tiny for wordproblems; "
    "else chosen by what fits this machine and a short probe]",
)
@click.option(
    "--dataset",
    "datasets",
    multiple=True,
    help="Raw data; repeat it or separate with commas.  [default: FT_DATASET, else by domain]",
)
@click.option("--upper-data-size-limit", type=POSITIVE, help="Training rows of one experiment.  [default: 2000]")
@click.option(
    "--refuse-overlaps",
    is_flag=True,
    default=None,
    help="Refuse a recipe whose rows hold validation items, and name them.  [default: drop and count such rows]",
)
@click.option("--loop-n", type=POSITIVE, help="Experiments.  [default: unlimited]")
@click.option(
    "--patience", type=POSITIVE, help="End after so many experiments in a row without a better one.  [default: never]"
)
@click.option(
    "--parallel",
    type=click.IntRange(1, 256),
    help="Experiments side by side; on this machine each needs a GPU of its own, or a share of the cores.  [default: 1]",
)
@click.option("--step-n", type=POSITIVE, help="Pause after so many nodes of the graph.  [default: never]")
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
    help="Not to be forgotten: points that NAME may lose, e.g. mmlu:-2.  [default: none]",
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
@click.option(
    "--executor",
    type=click.Choice(get_args(ExecutorKind)),
    help="Which machines smoke runs, trainings and evaluations run on: this one, or nodes of Slurm or Ray.  [default: local]",
)
@click.option(
    "--allow-unsandboxed",
    is_flag=True,
    help="Run generated code without protection: where no sandbox works, or everywhere with --sandbox process.",
)
@click.option(
    "--approve",
    type=click.Choice(get_args(ApproveAt)),
    help="Ask before each experiment's plan is carried out, or before each training.  [default: never]",
)
@click.option(
    "--on-stop",
    type=click.Choice(get_args(OnStop)),
    help="When the researcher finds nothing left that is worth its cost: finish the run, ask you, or continue to the "
    "limits.  [default: finish]",
)
@click.option(
    "--notify",
    metavar="URL",
    help="Webhook that is told when the run ends, fails, nears a limit or asks.  [default: TUNELOOP_NOTIFY_URL]",
)
@click.option(
    "--track",
    multiple=True,
    type=click.Choice(get_args(TrackerName)),
    help="Tracker that is fed with every experiment, as often as wanted.  [default: TUNELOOP_TRACKERS]",
)
@click.option("--run-id", help="Name of the run.  [default: benchmark and time]")
@click.option("--repeat", metavar="RUN", help="Repeat a run from its manifest; other options change it.")
@click.option("--dry-run", is_flag=True, help="Show plan, forecast and downloads; make nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print events, or the plan, as JSON lines.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    step_n: int | None,
    run_id: str | None,
    notify: str | None,
    track: tuple[str, ...],
    repeat: str | None,
    dry_run: bool,
    as_json: bool,
    allow_unsandboxed: bool,
    **given: Any,
) -> None:
    """Start a run: look at the data, train, evaluate, learn, go round again, prove the result on a sealed test."""
    # the graph and the catalogs come with these, and help needs none of them
    from tuneloop.cli.notes import dotenv_notes, settings_notes
    from tuneloop.cli.select_run import select_run
    from tuneloop.cli.terminal import is_interactive
    from tuneloop.core.settings import load_settings
    from tuneloop.graph.telemetry.tracker_process import check_trackers
    from tuneloop.tools.runs.manifest import repeated_spec
    from tuneloop.tools.runs.spec import build_spec

    given["sandbox"] = allowed_sandbox(given["sandbox"], allow_unsandboxed)
    settings = load_settings(notify_url=notify, trackers=track or None)
    check_trackers(settings.trackers)
    ask = is_interactive() and not as_json
    if repeat:
        spec = build_spec(given, settings, repeated_spec(select_run(settings.home, repeat)))
    else:
        spec = build_spec(with_benchmark_and_model(given, settings, ask=ask), settings)
    loud = [] if repeat or ask or not is_unnamed(given, settings) else [UNNAMED]
    notes = (*loud, *dotenv_notes(Path(".env")), *([] if repeat else settings_notes(settings)), *limit_notes(spec))
    if dry_run:
        from tuneloop.cli.dry_run import show_plan

        show_plan(spec, settings, as_json=as_json)
        print_notes(notes)
        ctx.exit(0)
    from tuneloop.cli.drive import drive_in_terminal
    from tuneloop.graph.lifecycle.drive import create_run

    run = create_run(spec, settings, run_id)
    print_notes(notes)
    click.echo(f"run {run.id} in {run.root}", err=True)
    ctx.exit(drive_in_terminal(run, settings, step_n=step_n, as_json=as_json))


def print_notes(notes: Iterable[str]) -> None:
    """One line each, on stderr."""
    for note in notes:
        click.echo(note if note == UNNAMED else f"note: {note}", err=True)


def with_benchmark_and_model(given: Mapping[str, Any], settings: Settings, *, ask: bool) -> dict[str, Any]:
    """The options, with what nobody named: asked for where somebody is there, else aime25."""
    from tuneloop.tools.runs.spec import DEFAULT_BENCHMARK

    found = dict(given)
    if is_unnamed(given, settings):
        found["benchmark"] = ask_for("benchmark") if ask else FALLBACK_BENCHMARK
    embedded = found.get("benchmark") == DEFAULT_BENCHMARK or settings.target_benchmark == DEFAULT_BENCHMARK
    if ask and not (found.get("base_model") or settings.base_model or embedded):
        found["base_model"] = ask_for("base_model")
    return found


def is_unnamed(given: Mapping[str, Any], settings: Settings) -> bool:
    """Whether neither an option nor the settings name a benchmark, or an empty list of them."""
    from tuneloop.tools.runs.spec import named_benchmark

    return not (given.get("benchmark") or named_benchmark(settings))


def ask_for(field: str) -> str:
    """What the person at this terminal names."""
    from tuneloop.tools.benchmark_items.resolve import registered_names
    from tuneloop.tools.hub.models import registered_models

    if field == "benchmark":
        click.echo(f"registered benchmarks: {', '.join(registered_names())}", err=True)
        return str(
            click.prompt("Benchmark (a name, or a folder with benchmark.yaml)", default="wordproblems", err=True)
        )
    click.echo(f"registered base models: {', '.join(registered_models())}", err=True)
    return str(click.prompt("Base model (a name, a folder or a hub id org/name)", default=AUTO, err=True))


def limit_notes(spec: RunSpec) -> list[str]:
    """That nothing ends the run, where nothing does."""
    limits = (spec.loop_n, spec.patience, spec.timeout, spec.max_cost, spec.max_tokens, spec.max_gpu_hours)
    if any(limit is not None for limit in limits):
        return []
    return ["no end is given (--loop-n, --timeout, --max-...): the run goes on until you end it with: tuneloop stop"]


def allowed_sandbox(kind: str | None, allowed: bool) -> str | None:
    """What the spec asks for. That nothing protects is said to this process alone and stands in no spec.

    Raises InvalidRequestError for `process` without --allow-unsandboxed.
    """
    if kind == "process" and not allowed:
        from tuneloop.sandboxes.process import REFUSAL  # sandboxes are heavy, and help needs none

        raise InvalidRequestError(REFUSAL)
    if allowed:
        from tuneloop.core.settings import allow_unsandboxed

        allow_unsandboxed(always=kind == "process")
    return "auto" if kind == "process" else kind
