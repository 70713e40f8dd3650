"""The live view in a terminal: who does what and why, progress, and the table of experiments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import reduce

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tuneloop.cli.board import Board, advance, incumbent, seconds_left
from tuneloop.cli.plain import Show
from tuneloop.cli.words import chosen, finish_line, forecast, foreseen, line, progress
from tuneloop.core.events import (
    AgentAnswered,
    Approval,
    Event,
    ExperimentFinished,
    Forecasted,
    JobProgress,
    LimitNear,
    PlannerFellBack,
    Problem,
    RunFinished,
    Told,
    Watched,
)
from tuneloop.core.wording import clean, duration, interval

STYLES = {"promoted": "green", "not promoted": "yellow", "failed": "red"}
BAR_WIDTH = 36


def render(board: Board, now: datetime) -> RenderableType:
    """All that is known, top to bottom: run, experiments, voices, work at hand, end."""
    parts = [_head(board), _table(board), *map(_voice, board.words), _work(board, now), _end(board)]
    return Group(*(part for part in parts if part is not None))


def _head(board: Board) -> Text:
    run = board.started
    if run is None:
        return Text("waiting for the first event", style="dim")
    facts = f"{clean(run.benchmark)} · {clean(run.base_model)} · planner {run.planner} · {run.sandbox}"
    told = (board.foreseen and foreseen(board.foreseen), board.validation and chosen(board.validation))
    seen = "".join(f"\n{line}" for line in told if line)
    return Text.assemble((clean(run.run), "bold"), "  ", (facts, "dim"), (seen, "dim"))


def _table(board: Board) -> Table | None:
    if board.baseline is None and not board.rows:
        return None
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("#", "score (95 %)", "gain", "outcome", "time", "hypothesis"):
        table.add_column(name, no_wrap=name != "hypothesis")
    if board.baseline is not None:
        base = board.baseline
        table.add_row("base", interval(base.value, base.low, base.high), "", "", "", f"n = {base.n}", style="dim")
    best = incumbent(board)
    for row in board.rows:
        table.add_row(*_cells(row, best))
    return table


def _cells(row: ExperimentFinished, best: int | None) -> list[RenderableType]:
    mark = " ★" if row.experiment == best else ""
    return [
        f"{row.experiment}{mark}",
        interval(row.value, row.low, row.high),
        "-" if row.gain is None else f"{row.gain:+.1f}",
        Text(row.outcome, style=STYLES[row.outcome]),
        duration(row.seconds),
        Text(clean(row.statement, 120)),
    ]


def _voice(
    event: AgentAnswered | Problem | Watched | Forecasted | Told | Approval | PlannerFellBack | LimitNear,
) -> Text:
    if isinstance(event, Told):
        return Text.assemble(("you ", "bold magenta"), clean(event.said), f"\n    {clean(event.answer)}")
    if isinstance(event, Approval | PlannerFellBack | LimitNear):
        return Text(line(event) or "", style="yellow")
    if isinstance(event, Forecasted):
        return Text(forecast(event))
    if isinstance(event, Watched):
        said = "stopped" if event.stops else "watch"
        return Text.assemble((f"{event.job} {said} ", "bold yellow"), f"step {event.step}: ", clean(event.text))
    if isinstance(event, Problem):
        return Text.assemble((f"{event.node} ", "bold red"), (f"[{event.culprit}] ", "red"), clean(event.text))
    why = f"  because {clean(event.why)}" if event.why else ""
    return Text.assemble((f"{event.agent} ", "bold cyan"), clean(event.says), (why, "dim"))


def _work(board: Board, now: datetime) -> Group | None:
    if board.node is None:
        return None
    where = f"experiment {board.node.experiment} · " if board.node.experiment else ""
    took = duration((now - board.node.at).total_seconds())
    head = Text.assemble(("▶ ", "green"), (f"{where}{board.node.node}", "bold"), (f"  {took}", "dim"))
    thinks = [Text(f"  {line(board.thinks)}", style="dim")] if board.thinks else []
    return Group(head, *thinks, *(_bar(first, last) for first, last in board.progress.values()))


def _bar(first: JobProgress, last: JobProgress) -> Table:
    left = seconds_left(first, last)
    text = progress(last, duration(left) if left else "")
    grid = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=last.total or None, completed=last.done, width=BAR_WIDTH, pulse=not last.total)
    grid.add_row(Text(f"  {last.job}"), bar, Text(text))
    return grid


def _end(board: Board) -> Text | None:
    if board.end is None:
        return None
    if isinstance(board.end, RunFinished):
        return Text(finish_line(board.end), style="bold green" if board.end.best else "bold yellow")
    return Text(f"paused: {clean(board.end.reason)}", style="bold yellow")


@contextlib.contextmanager
def rich_view(console: Console) -> Iterator[Show]:
    """Redraw one block four times a second."""
    board = Board()

    def draw() -> RenderableType:
        return render(board, datetime.now(UTC))

    def show(events: list[Event]) -> None:
        nonlocal board
        board = reduce(advance, events, board)

    with Live(console=console, get_renderable=draw, refresh_per_second=4):
        yield show
