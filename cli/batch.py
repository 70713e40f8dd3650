"""`tuneloop batch`: many runs from one file, side by side, with a comparison at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuneloop.core.formatting import printable
from tuneloop.core.settings import Settings, load_settings

if TYPE_CHECKING:
    from rich.table import Table

    from tuneloop.tools.batch.run import BatchFolder, TaskStatus

EXAMPLES = """\b
Examples:
  tuneloop batch tasks.json --parallel 2
  tuneloop batch tasks.json --scenarios scenarios.json
  tuneloop batch resume
  tuneloop batch stop
  tuneloop batch report NAME --json

\b
tasks.json: {"tasks": [{"model": "org/name", "benchmark": "gsm8k", "gpus": "0,1", "timeout": "12h"}]}; a task may hold every
option of tuneloop run. In YAML `defaults` hold for all tasks, and each task runs once for each of `scenarios`.
Everything is checked before anything starts. Runs go on when this command is killed. Docs: docs/batch.md.
"""
NAME = click.argument("name", required=False)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class BatchCommands(click.Group):
    """`tuneloop batch FILE` is `tuneloop batch start FILE`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """A first word that is no command is a file of tasks."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["start", *args])


@click.group(
    cls=BatchCommands, epilog=EXAMPLES, subcommand_metavar="FILE | resume [NAME] | stop [NAME] | report [NAME]"
)
def command() -> None:
    """Many runs from one file: one per task and scenario, side by side, with a comparison at the end."""


@command.command(
    epilog="\b\nExamples:\n  tuneloop batch tasks.json --parallel 2\n  tuneloop batch start tasks.yaml --device-memory 40GB"
)
@click.argument("tasks", type=click.Path(path_type=Path))
@click.option("--scenarios", type=click.Path(path_type=Path), help="Descriptions by benchmark, or options by scenario.")
@click.option("--parallel", type=click.IntRange(1, 64), help="Runs side by side.  [default: one for each GPU, else 1]")
@click.option("--device-memory", metavar="SIZE", help="Memory that a task needs on each GPU.  [default: all of it]")
@click.option("--name", help="Name of the batch.  [default: the file's name and the time]")
@JSON
def start(
    tasks: Path,
    scenarios: Path | None,
    parallel: int | None,
    device_memory: str | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Check every task, then run them all."""
    from tuneloop.graph.lifecycle.batch import make_batch
    from tuneloop.tools.batch.tasks import read_document

    settings = load_settings()
    described = read_document(scenarios) if scenarios else None
    given = {"device_memory": device_memory} if device_memory else {}
    folder = make_batch(read_document(tasks), described, settings, name or "", parallel, given)
    click.echo(f"batch {folder.id}: {len(folder.read().tasks)} runs in {folder.root}", err=True)
    _drive(folder, settings, as_json=as_json)


@command.command(epilog="\b\nExamples:\n  tuneloop batch resume\n  tuneloop batch resume tasks-20260101-120000")
@NAME
@JSON
def resume(name: str | None, as_json: bool) -> None:
    """Go on with a batch; runs that had failed are tried again."""
    from tuneloop.tools.batch.run import find_batch

    settings = load_settings()
    _drive(find_batch(settings.home, name), settings, as_json=as_json, retry=True)


@command.command(epilog="\b\nExamples:\n  tuneloop batch stop\n  tuneloop batch stop tasks-20260101-120000")
@NAME
def stop(name: str | None) -> None:
    """Pause a batch with its runs; `batch resume` goes on."""
    from tuneloop.tools.batch.background import stop_batch
    from tuneloop.tools.batch.run import find_batch

    settings = load_settings()
    folder = find_batch(settings.home, name)
    done = "has stopped, its runs were" if stop_batch(folder, settings) else "is asked to stop, its runs are"
    click.echo(f"batch {folder.id} {done} asked to pause; to go on: tuneloop batch resume {folder.id}")


@command.command(epilog="\b\nExamples:\n  tuneloop batch report\n  tuneloop batch report --json | jq '.[].gain'")
@NAME
@JSON
def report(name: str | None, as_json: bool) -> None:
    """Compare what has finished so far; starts nothing."""
    from tuneloop.tools.batch.comparison import compare_runs, comparison_markdown
    from tuneloop.tools.batch.run import batch_status, find_batch

    settings = load_settings()
    folder = find_batch(settings.home, name)
    cells = compare_runs(folder.home, batch_status(folder, settings))
    click.echo(
        json.dumps([asdict(cell) for cell in cells], indent=1) if as_json else comparison_markdown(cells), nl=as_json
    )


def _drive(folder: BatchFolder, settings: Settings, *, as_json: bool, retry: bool = False) -> None:
    """Show the batch until it is over. Exit status 1 when a run has failed, 130 when interrupted."""
    from tuneloop.graph.lifecycle.batch import finish_batch
    from tuneloop.tools.batch.comparison import comparison_markdown
    from tuneloop.tools.batch.run import is_over

    try:
        with _shown(as_json) as show:
            found, cells = finish_batch(folder, settings, show, retry=retry)
    except KeyboardInterrupt:
        click.echo(f"the runs go on; to go on with the batch: tuneloop batch resume {folder.id}", err=True)
        raise
    if not as_json:
        click.echo(comparison_markdown(cells), nl=False)
    if not is_over(found):
        click.echo(f"to go on: tuneloop batch resume {folder.id}", err=True)
        raise SystemExit(0)
    click.echo(f"comparison: {folder.root / 'comparison.md'}", err=True)
    raise SystemExit(1 if any(status.state == "failed" for status in found) else 0)


@contextmanager
def _shown(as_json: bool) -> Iterator[Callable[[Sequence[TaskStatus]], None]]:
    """A live table in a terminal; elsewhere a line for each change."""
    from rich.live import Live

    from tuneloop.cli.terminal import PlainConsole

    console = PlainConsole(stderr=True)
    if as_json or not console.is_terminal:
        yield _Changes(as_json)
        return
    with Live(console=console, refresh_per_second=2) as live:
        yield lambda found: live.update(_table(found))


def _table(found: Sequence[TaskStatus]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("run", "state", "at"):
        table.add_column(name, no_wrap=name != "at")
    for status in found:
        table.add_row(Text(status.task.run_id), status.state, Text(status.reason or status.place))
    return table


class _Changes:
    """A line, or a JSON object, for each run whose state is new."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.told: dict[str, Any] = {}

    def __call__(self, found: Sequence[TaskStatus]) -> None:
        """Print what has changed."""
        for status in found:
            if self.told.get(status.task.run_id) == status.state:
                continue
            self.told[status.task.run_id] = status.state
            if self.as_json:
                click.echo(json.dumps({"run_id": status.task.run_id, "state": status.state, "reason": status.reason}))
            else:
                click.echo(
                    printable(": ".join(filter(None, (status.task.run_id, status.state, status.reason))), 1000),
                    err=True,
                )
