"""The live view in a terminal: who does what and why, progress, and the table of experiments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tuneloop.cli.plain_view import Show
from tuneloop.core import events as e
from tuneloop.core.events import (
    AgentAnswered,
    Approval,
    Event,
    ExperimentFinished,
    JobProgress,
    LimitWarning,
    MessageAnswered,
    MonitorFinding,
    PlannerFallback,
    RecipeFailure,
    RunFinished,
    ThroughputMeasured,
    TrainingForecast,
)
from tuneloop.core.formatting import format_duration, format_interval, printable
from tuneloop.tools.runs.event_text import (
    event_line,
    power_line,
    progress_line,
    run_finished_line,
    validation_line,
)

# The state of the live view, updated event by event, so that a terminal can attach at any time.

WORDS_KEPT = 5
SHOWN_WORK = 12


@dataclass(frozen=True)
class Work:
    """The newest node of an open experiment; `progress` maps a job of it to its first and latest report."""

    node: e.NodeStarted
    over: bool = False
    streaming: e.AgentStreaming | e.ToolCalled | e.ModelCalled | None = None
    progress: Mapping[str, tuple[e.JobProgress, e.JobProgress]] = field(default_factory=dict)


@dataclass(frozen=True)
class LiveState:
    """Everything shown; `work` maps an open experiment, 0 the run itself, to what is done on it."""

    started: e.RunStarted | None = None
    power: e.PowerEstimated | None = None
    validation: e.ValidationChosen | None = None
    baseline: e.BaselineMeasured | None = None
    work: Mapping[int, Work] = field(default_factory=dict)
    words: tuple[
        e.AgentAnswered
        | e.RecipeFailure
        | e.MonitorFinding
        | e.TrainingForecast
        | e.ThroughputMeasured
        | e.MessageAnswered
        | e.Approval
        | e.PlannerFallback
        | e.LimitWarning,
        ...,
    ] = ()
    rows: tuple[e.ExperimentFinished, ...] = ()
    end: e.RunPaused | e.RunFinished | None = None


def apply_event(state: LiveState, event: e.Event) -> LiveState:  # noqa: PLR0911 - one line an event
    """The board after `event`."""
    match event:
        case e.RunStarted():
            return replace(state, started=event, end=None, work={})
        case e.NodeStarted():
            return replace(state, end=None, work={**_others(state, event), event.about: Work(event)})
        case e.NodeFinished() | e.NodeInterrupted():
            return replace(state, work=_ended(state, event))
        case (
            e.AgentAnswered()
            | e.RecipeFailure()
            | e.MonitorFinding()
            | e.TrainingForecast()
            | e.ThroughputMeasured()
            | e.MessageAnswered()
            | e.Approval()
            | e.LimitWarning()
            | e.PlannerFallback()
        ):
            words = (*state.words, event)[-WORDS_KEPT:]
            return replace(state, words=words, work=_changed(state, event, streaming=None))
        case e.AgentStreaming() | e.ToolCalled() | e.ModelCalled():
            return replace(state, work=_changed(state, event, streaming=event))
        case e.JobProgress():
            return replace(state, work=_with_progress(state, event))
        case e.PowerEstimated():
            return replace(state, power=event)
        case e.ValidationChosen():
            return replace(state, validation=event)
        case e.BaselineMeasured():
            return replace(state, baseline=event)
        case e.ExperimentFinished():
            others = tuple(row for row in state.rows if row.experiment != event.experiment)
            work = {number: work for number, work in state.work.items() if number != event.experiment}
            return replace(state, rows=(*others, event), work=work)
        case e.RunPaused() | e.RunFinished():
            return replace(state, end=event, work={})


def _others(state: LiveState, begun: e.NodeStarted) -> Mapping[int, Work]:
    """What goes on beside a node that begins: other experiments; the run itself has one node at a time."""
    return {} if begun.about == 0 or begun.node == "finish" else {n: work for n, work in state.work.items() if n}


def _ended(state: LiveState, event: e.NodeFinished | e.NodeInterrupted) -> Mapping[int, Work]:
    """Its experiment waits; where the researcher opened none, there is none."""
    ended = [number for number, work in state.work.items() if not work.over and work.node.ended_by(event)]
    opened = [n for n in ended if event.node != "research" or n == event.experiment]
    waiting = {n: Work(state.work[n].node, over=True) for n in opened}
    return {n: waiting.get(n, work) for n, work in state.work.items() if n in waiting or n not in ended}


def _number(state: LiveState, event: Event) -> int:
    """Whose work an event tells of: where one node is at work, whatever is told is told by it."""
    return next(iter(state.work)) if len(state.work) == 1 else event.experiment


def _changed(state: LiveState, event: Event, **changes: Any) -> Mapping[int, Work]:
    number = _number(state, event)
    work = state.work.get(number)
    return state.work if work is None or work.over else {**state.work, number: replace(work, **changes)}


def _with_progress(state: LiveState, event: e.JobProgress) -> Mapping[int, Work]:
    work = state.work.get(_number(state, event))
    known = work.progress if work else {}
    first, last = known.get(event.job, (event, event))
    first = event if event.done < last.done else first
    return _changed(state, event, progress={**known, event.job: (first, event)})


def incumbent(state: LiveState) -> int | None:
    """Number of the experiment that was promoted last."""
    return next((row.experiment for row in reversed(state.rows) if row.outcome == "promoted"), None)


def seconds_left(first: e.JobProgress, last: e.JobProgress) -> float | None:
    """Forecast from the pace between two reports of a job; None while there is no pace."""
    done, seconds = last.done - first.done, (last.at - first.at).total_seconds()
    if done <= 0 or last.total <= 0:
        return None
    return max(0.0, (last.total - last.done) * seconds / done)


STYLES = {"promoted": "green", "not promoted": "yellow", "failed": "red", "not evaluated": "yellow"}
BAR_WIDTH = 36


def render(state: LiveState, now: datetime) -> RenderableType:
    """All that is known, top to bottom: run, experiments, voices, work at hand, end."""
    several = len(state.work) > 1
    voices = [_numbered(event, _voice(event)) if several else _voice(event) for event in state.words]
    parts = [_head(state), _table(state), *voices, *_works(state, now), _end(state)]
    return Group(*(part for part in parts if part is not None))


def _numbered(event: Event, text: Text) -> Text:
    return Text.assemble((f"[{event.experiment}] ", "dim"), text) if event.experiment else text


def _head(state: LiveState) -> Text:
    run = state.started
    if run is None:
        return Text("waiting for the first event", style="dim")
    facts = f"{printable(run.benchmark)} · {printable(run.base_model)} · planner {run.planner} · {run.sandbox}"
    told = (state.power and power_line(state.power), state.validation and validation_line(state.validation))
    seen = "".join(f"\n{line}" for line in told if line)
    return Text.assemble((printable(run.run), "bold"), "  ", (facts, "dim"), (seen, "dim"))


def _table(state: LiveState) -> Table | None:
    if state.baseline is None and not state.rows:
        return None
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("#", "score (95 %)", "gain", "outcome", "time", "hypothesis"):
        table.add_column(name, no_wrap=name != "hypothesis")
    if state.baseline is not None:
        base = state.baseline
        table.add_row(
            "base", format_interval(base.value, base.low, base.high), "", "", "", f"n = {base.n}", style="dim"
        )
    best = incumbent(state)
    for row in state.rows:
        table.add_row(*_cells(row, best))
    return table


def _cells(row: ExperimentFinished, best: int | None) -> list[RenderableType]:
    mark = " ★" if row.experiment == best else ""
    return [
        f"{row.experiment}{mark}",
        format_interval(row.value, row.low, row.high),
        "-" if row.gain is None else f"{row.gain:+.1f}",
        Text(row.outcome, style=STYLES[row.outcome]),
        format_duration(row.seconds),
        Text(printable(row.statement, 120)),
    ]


def _voice(
    event: AgentAnswered
    | RecipeFailure
    | MonitorFinding
    | TrainingForecast
    | ThroughputMeasured
    | MessageAnswered
    | Approval
    | PlannerFallback
    | LimitWarning,
) -> Text:
    if isinstance(event, MessageAnswered):
        return Text.assemble(("you ", "bold magenta"), printable(event.said), f"\n    {printable(event.answer)}")
    if isinstance(event, Approval | PlannerFallback | LimitWarning):
        return Text(event_line(event) or "", style="yellow")
    if isinstance(event, TrainingForecast | ThroughputMeasured):
        return Text(event_line(event) or "")
    if isinstance(event, MonitorFinding):
        said = "stopped" if event.stops else "watch"
        return Text.assemble((f"{event.job} {said} ", "bold yellow"), f"step {event.step}: ", printable(event.text))
    if isinstance(event, RecipeFailure):
        return Text.assemble((f"{event.node} ", "bold red"), (f"[{event.culprit}] ", "red"), printable(event.text))
    why = f"  because {printable(event.why)}" if event.why else ""
    return Text.assemble((f"{event.agent} ", "bold cyan"), printable(event.says), (why, "dim"))


def _works(state: LiveState, now: datetime) -> Iterator[RenderableType]:
    """What is done on each open experiment, the oldest first."""
    shown = sorted(state.work)[:SHOWN_WORK]
    for number in shown:
        yield from _work(number, state.work[number], now)
    if len(state.work) > len(shown):
        yield Text(f"  {len(state.work) - len(shown)} more experiments are open", style="dim")


def _work(number: int, work: Work, now: datetime) -> Iterator[RenderableType]:
    what = f"{f'experiment {number} · ' if number else ''}{work.node.node}"
    if work.over:
        yield Text(f"  {what}  waits", style="dim")
        return
    took = format_duration((now - work.node.at).total_seconds())
    yield Text.assemble(("▶ ", "green"), (what, "bold"), (f"  {took}", "dim"))
    if work.streaming:
        yield Text(f"  {event_line(work.streaming)}", style="dim")
    for first, last in work.progress.values():
        yield _bar(first, last)


def _bar(first: JobProgress, last: JobProgress) -> Table:
    left = seconds_left(first, last)
    text = progress_line(last, format_duration(left) if left else "")
    grid = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=last.total or None, completed=last.done, width=BAR_WIDTH, pulse=not last.total)
    grid.add_row(Text(f"  {last.job}"), bar, Text(text))
    return grid


def _end(state: LiveState) -> Text | None:
    if state.end is None:
        return None
    if isinstance(state.end, RunFinished):
        return Text(run_finished_line(state.end), style="bold green" if state.end.best else "bold yellow")
    return Text(f"paused: {printable(state.end.reason)}", style="bold yellow")


@contextlib.contextmanager
def rich_view(console: Console) -> Iterator[Show]:
    """Redraw one block four times a second."""
    state = LiveState()

    def draw() -> RenderableType:
        return render(state, datetime.now(UTC))

    def show(events: list[Event]) -> None:
        nonlocal state
        state = reduce(apply_event, events, state)

    with Live(console=console, get_renderable=draw, refresh_per_second=4):
        yield show
