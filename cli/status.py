"""`tuneloop status`: where a run stands and what its experiments brought."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tuneloop.cli.select_run import select_run
from tuneloop.core.budget import NEAR, SpendingLine, format_amount, spending_lines
from tuneloop.core.events import JobProgress
from tuneloop.core.experiment import NOT_EVALUATED, Experiment
from tuneloop.core.formatting import format_duration, format_gain_cell, format_interval, format_size
from tuneloop.core.settings import load_settings
from tuneloop.tools.runs.event_text import progress_line
from tuneloop.tools.runs.status import OpenExperiment, RunStatus, run_status, status_facts

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

LAST = 30
EXAMPLES = """\b
Examples:
  tuneloop status                    the newest run
  tuneloop status my-run --all
  tuneloop status --json | jq .open
"""


@click.command(epilog=EXAMPLES)
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.option("--all", "every", is_flag=True, help=f"Show every experiment, not only the last {LAST} and the best.")
def command(run_id: str | None, as_json: bool, every: bool) -> None:
    """Show RUN (the newest): state, node, base model's score, table of experiments."""
    status = run_status(select_run(load_settings().home, run_id))
    if as_json:
        click.echo(json.dumps(status_facts(status), indent=1, allow_nan=False))
    else:
        from tuneloop.cli.terminal import table_console  # tables are slow to import, and JSON needs none

        show_status(status, table_console(), len(status.journal.experiments) if every else LAST)


def show_status(status: RunStatus, console: Console, last: int) -> None:
    """The status for people; of experiments the last ones and, wherever it is, the best."""
    from rich.table import Table
    from rich.text import Text

    where = f" {status.place}" if status.state in ("running", "paused") else ""
    where += f" on {status.host}" if status.host else ""
    measured = status.benchmark if status.evaluated else NOT_EVALUATED
    console.print(Text(f"{status.id}: {status.state}{where}, {measured}, {status.base_model}"))
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("#", "score (95 %)", "gain (95 %)", "outcome", "time", "hypothesis"):
        table.add_column(name, no_wrap=name != "hypothesis")
    if status.baseline:
        base = status.baseline
        table.add_row("base", format_interval(base.value, base.low, base.high), "", "", "", f"n = {base.n}")
    done, best = status.journal.experiments, status.best
    shown = [e for i, e in enumerate(done) if i >= len(done) - last or e is best]
    for e in shown:
        table.add_row(*experiment_cells(e, best))
    for now in status.open:
        table.add_row(*open_cells(now))
    console.print(table)
    for now in status.open:
        if now.job:
            of = f" {now.number}" if len(status.open) > 1 else ""
            console.print(Text(f"now{of}: {job_line(now.job)}"))
    console.print(status_spending_lines(status))
    if len(shown) < len(done):
        console.print(Text(f"{len(done) - len(shown)} earlier experiments: tuneloop status {status.id} --all"))
    if status.state == "paused":
        console.print(Text(f"to go on: tuneloop resume {status.id}"))
    if status.report:
        console.print(Text(f"report: {status.report}"))


def open_cells(now: OpenExperiment) -> list[str | Text]:
    """The line of an experiment that is not over; its node stands where the outcome will."""
    from rich.text import Text

    from tuneloop.cli.terminal import cell_text

    number = str(now.number) if now.number else "base"
    took = f" for {format_duration(now.seconds)}" if now.seconds is not None else ""
    return [number, "", "", f"{now.place}{took}", "", Text(cell_text(now.statement, 120))]


def job_line(job: JobProgress) -> str:
    """`train: 40/100 steps loss 1.2, 40 %`."""
    share = f", {100 * job.done / job.total:.0f} %" if job.total else ""
    return f"{job.job}: {progress_line(job)}{share}"


def status_spending_lines(status: RunStatus) -> Table:
    """Spent, limit and left; what is neither limited nor used is left out."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("", "spent", "limit", "left"):
        table.add_column(name, no_wrap=True)
    for line in spending_lines(status.spent, status.limits):
        if line.spent or line.limit is not None:
            table.add_row(line.kind, *(amount_cell(line, value) for value in (line.spent, line.limit, line.left)))
    table.add_row("disk", format_size(status.spent.disk), "", "")
    if status.spent.unpriced:
        table.add_row("", Text(f"money without {', '.join(status.spent.unpriced)}, whose price is unknown"), "", "")
    return table


def amount_cell(line: SpendingLine, value: float | None) -> str:
    """An amount; of four fifths or more of a limit with its share."""
    if value is None:
        return "-"
    near = f" ({100 * line.share:.0f} %)" if value is line.spent and line.share >= NEAR else ""
    return format_amount(line.kind, value) + near


def experiment_cells(e: Experiment, best: Experiment | None) -> list[str | Text]:
    """One line of the table."""
    from rich.text import Text

    from tuneloop.cli.terminal import cell_text

    comparison = e.feedback.comparison
    return [
        f"{e.number}{' ★' if best and best.number == e.number else ''}",
        format_interval(e.score.value, e.score.low, e.score.high) if e.score else "-",
        format_gain_cell(comparison.gain, comparison.low, comparison.high) if comparison else "-",
        e.outcome,
        format_duration(e.seconds),
        Text(cell_text(e.failure.text if e.failure else e.hypothesis.statement, 120)),
    ]
