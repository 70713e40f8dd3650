"""`tuneloop status`: where a run stands and what its experiments brought."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tuneloop.cli.pick import pick
from tuneloop.core.experiment import Experiment
from tuneloop.core.ledger import NEAR, Line, amount, lines
from tuneloop.core.settings import load_settings
from tuneloop.core.wording import bracketed, clean, duration, interval, size
from tuneloop.tools.runs.status import RunStatus, facts, run_status

LAST = 30


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.option("--all", "every", is_flag=True, help=f"Show every experiment, not only the last {LAST} and the best.")
def command(run_id: str | None, as_json: bool, every: bool) -> None:
    """Show RUN (the newest): state, node, base model's score, table of experiments."""
    status = run_status(pick(load_settings().home, run_id))
    if as_json:
        click.echo(json.dumps(facts(status), indent=1, allow_nan=False))
    else:
        show(status, Console(), len(status.journal.experiments) if every else LAST)


def show(status: RunStatus, console: Console, last: int) -> None:
    """The status for people; of experiments the last ones and, wherever it is, the best."""
    where = f" at {status.stage}" if status.state in ("running", "paused") else ""
    console.print(Text(f"{status.id}: {status.state}{where}, {status.benchmark}, {status.base_model}"))
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("#", "score (95 %)", "gain (95 %)", "outcome", "time", "hypothesis"):
        table.add_column(name, no_wrap=name != "hypothesis")
    if status.baseline:
        base = status.baseline
        table.add_row("base", interval(base.value, base.low, base.high), "", "", "", f"n = {base.n}")
    done = status.journal.experiments
    shown = [e for i, e in enumerate(done) if i >= len(done) - last or e is status.best]
    for e in shown:
        table.add_row(*cells(e, status.best))
    console.print(table)
    console.print(spending(status))
    if len(shown) < len(done):
        console.print(Text(f"{len(done) - len(shown)} earlier experiments: tuneloop status {status.id} --all"))
    if status.state == "paused":
        console.print(Text(f"to go on: tuneloop resume {status.id}"))
    if status.report:
        console.print(Text(f"report: {status.report}"))


def spending(status: RunStatus) -> Table:
    """Spent, limit and left; what is neither limited nor used is left out."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("", "spent", "limit", "left"):
        table.add_column(name, no_wrap=True)
    for line in lines(status.spent, status.limits):
        if line.spent or line.limit is not None:
            table.add_row(line.kind, *(written(line, value) for value in (line.spent, line.limit, line.left)))
    table.add_row("disk", size(status.spent.disk), "", "")
    if status.spent.unpriced:
        table.add_row("", Text(f"money without {', '.join(status.spent.unpriced)}, whose price nobody knows"), "", "")
    return table


def written(line: Line, value: float | None) -> str:
    """An amount; of four fifths or more of a limit with its share."""
    if value is None:
        return "-"
    near = f" ({100 * line.share:.0f} %)" if value is line.spent and line.share >= NEAR else ""
    return amount(line.kind, value) + near


def cells(e: Experiment, best: Experiment | None) -> list[str | Text]:
    """One line of the table."""
    comparison = e.feedback.comparison
    return [
        f"{e.number}{' ★' if best and best.number == e.number else ''}",
        interval(e.score.value, e.score.low, e.score.high) if e.score else "-",
        bracketed(comparison.gain, comparison.low, comparison.high) if comparison else "-",
        e.outcome,
        duration(e.seconds),
        Text(clean(e.failure.text if e.failure else e.hypothesis.statement, 120)),
    ]
