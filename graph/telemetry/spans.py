"""A run as spans, run → experiment → node → job: derived from its events and job folders, never stored.

Ids are hashes of what a span is about, so that every session, also one after a crash, adds to the same trace. Facts are
names and numbers only: no prompt, no row of data, no text of a model, no secret, no path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tuneloop.core.event_log import find_last_event_offset, parse_event, read_events, whole_lines
from tuneloop.core.events import Event, NodeFinished, NodeStarted, RecipeFailure, RunPaused, RunStarted
from tuneloop.core.experiment import Experiment
from tuneloop.core.files import read_model
from tuneloop.core.job import Exit
from tuneloop.core.layout import RunFolder
from tuneloop.tools.report.report_file import read_report
from tuneloop.tools.report.turns import turn_key
from tuneloop.tools.runs.messages import lives

Fact = str | int | float | bool
OF_THE_RUN = ("steer", "prepare", "finish")
BEGINNING = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class Span:
    """Something that is over; `error` says in a word or two how it failed, "" when it did not."""

    name: str
    id: int
    parent: int | None
    begin: datetime
    end: datetime
    facts: Mapping[str, Fact] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class NodeTurn:
    """A node's turn as the log has it: where it begins, its events so far."""

    offset: int
    begun: NodeStarted
    later: tuple[Event, ...]

    @property
    def over(self) -> bool:
        """Whether it was finished, or told to be cut short."""
        return any(isinstance(event, NodeFinished | RunPaused | RunStarted) for event in self.later)

    @property
    def last(self) -> datetime:
        """The last sign of life."""
        return self.later[-1].at if self.later else self.begun.at


def collect_spans(run: RunFolder, event: Event, size: int) -> list[Span]:
    """What is over with `event`, the last one in the first `size` bytes of the run's log."""
    match event:
        case RunStarted():
            here = find_last_event_offset(run.events, "run_started", size) or 0
            turn = newest_turn(run, here)
            return [interrupted_span(run, turn, turn.last)] if turn and not turn.over else []
        case RunPaused():
            here = find_last_event_offset(run.events, "run_paused", size) or 0
            turn = newest_turn(run, here)
            return [interrupted_span(run, turn, event.at)] if turn and not turn.over else []
        case NodeFinished():
            turn = newest_turn(run, size)
            while turn and turn_key(turn.begun) != turn_key(event):  # of another experiment, beside this one
                turn = newest_turn(run, turn.offset)
            return finished_spans(run, turn, event) if turn else []
    return []


def finished_spans(run: RunFolder, turn: NodeTurn, event: NodeFinished) -> list[Span]:
    """The node, the jobs that ended in it, and the experiment or the run when they end with it."""
    blamed = next((e.culprit for e in turn.later if isinstance(e, RecipeFailure)), "")
    facts: dict[str, Fact] = {"tuneloop.cpu_seconds": event.cpu}
    whole = [node_span(run, turn, event.experiment, event.at, facts, f"problem: {blamed}" if blamed else "")]
    before = find_last_event_offset(run.events, "node_finished", turn.offset)
    since = read_events(run.events, before, 1)[0][0].at if before is not None else BEGINNING
    whole += job_spans(run, event.experiment, since, event.at, whole[0].id)
    if event.node == "critique":
        whole.append(experiment_span(run, event.experiment, turn, event.at))
    if event.node == "finish":
        whole.append(run_span(run, event.at))
    return whole


def newest_turn(run: RunFolder, before: int) -> NodeTurn | None:
    """The newest turn that began before byte `before`."""
    offset = find_last_event_offset(run.events, "node_started", before)
    if offset is None:
        return None
    begun, *later = _between(run.events, offset, before)
    return NodeTurn(offset, begun, tuple(later)) if isinstance(begun, NodeStarted) else None


def _between(path: Path, offset: int, end: int) -> Iterator[Event]:
    for line in whole_lines(path, offset):
        offset += len(line)
        if offset > end:
            return
        if (event := parse_event(line)) is not None:
            yield event


def interrupted_span(run: RunFolder, turn: NodeTurn, end: datetime) -> Span:
    """A turn that a crash or a pause ended."""
    number = turn.begun.experiment + (turn.begun.node == "research")
    return node_span(run, turn, number, end, {"tuneloop.cut_short": True}, "cut short")


def node_span(
    run: RunFolder, turn: NodeTurn, number: int, end: datetime, facts: Mapping[str, Fact], error: str
) -> Span:
    """A node's turn; its beginning tells it from other turns of the same node."""
    name, of_run = turn.begun.node, turn.begun.node in OF_THE_RUN
    about: dict[str, Fact] = {"tuneloop.run": run.id, "tuneloop.node": name}
    if not of_run:
        about["tuneloop.experiment"] = number
    parent = span_id(run, "run") if of_run else span_id(run, "experiment", number)
    own = span_id(run, "node", name, turn.begun.at.isoformat())
    return Span(name, own, parent, turn.begun.at, end, {**about, **facts}, error)


def experiment_span(run: RunFolder, number: int, turn: NodeTurn, end: datetime) -> Span:
    """An experiment that is over, from the turn of `research` that opened it."""
    while (turn.begun.node, turn.begun.experiment) != ("research", number - 1) and (
        earlier := newest_turn(run, turn.offset)
    ):
        turn = earlier
    e = read_model(run.experiment(number).result, Experiment)
    compared = e.feedback.comparison
    found = {
        "tuneloop.run": run.id,
        "tuneloop.experiment": number,
        "tuneloop.outcome": e.outcome,
        "tuneloop.aspect": e.hypothesis.aspect,
        "tuneloop.repairs": e.repairs,
        "tuneloop.score": e.score and e.score.value,
        "tuneloop.gain": compared and compared.gain,
        "tuneloop.rows": e.training and e.training.rows,
        "tuneloop.steps": e.training and e.training.steps,
    }
    error = f"{e.failure.node}: {e.failure.culprit}" if e.failure else ""
    own = span_id(run, "experiment", number)
    return Span(f"experiment {number}", own, span_id(run, "run"), turn.begun.at, end, without_unknown(found), error)


def run_span(run: RunFolder, end: datetime) -> Span:
    """The run, once its report is written."""
    report = read_report(run)
    scores = {"baseline": report["baseline"]["test"], "best": report["best"]["test"]}
    found = {
        "tuneloop.run": run.id,
        "tuneloop.benchmark": report.get("benchmark"),
        "tuneloop.base_model": report.get("base_model"),
        "tuneloop.planner": report.get("planner"),
        "tuneloop.sandbox": report.get("sandbox"),
        "tuneloop.experiments": len(report.get("experiments", [])),
        "tuneloop.best": report["best"].get("experiment"),
        **{f"tuneloop.{name}.test": score and score["value"] for name, score in scores.items()},
    }
    return Span("run", span_id(run, "run"), None, run_began(run), end, without_unknown(found))


def job_spans(run: RunFolder, number: int, since: datetime, until: datetime, parent: int) -> list[Span]:
    """Jobs of the run or of this experiment that ended after `since`, up to `until`."""
    own = run.experiment(number).root
    places = (
        *run.preparations,
        run.final,
        *([own, *sorted((own / "seeds").glob("[0-9]*"))] if number else []),
    )
    folders = [job for place in places for job in sorted((place / "jobs").glob("*.[0-9]*"))]
    found = [job_span(run, job, parent) for job in folders if (job / "command.json").is_file()]
    return [span for span in found if span and since < span.end <= until]


def job_span(run: RunFolder, job: Path, parent: int) -> Span | None:
    """A job that is over, or was killed with its supervisor; None while it lives."""
    name, _, attempt = job.name.rpartition(".")
    facts: dict[str, Fact] = {"tuneloop.run": run.id, "tuneloop.job": name, "tuneloop.attempt": int(attempt)}
    begin = written_at(job / "command.json")
    own = span_id(run, "job", str(job.relative_to(run.root)))
    try:
        end = read_model(job / "exit.json", Exit)
    except FileNotFoundError:
        if lives(job):
            return None
        log = job / "log.txt"
        return Span(
            f"job {name}", own, parent, begin, max(begin, written_at(log)) if log.exists() else begin, facts, "lost"
        )
    told = {f"tuneloop.{key}": value for key, value in end.model_dump().items() if isinstance(value, int | float)}
    error = "" if end.ok else f"{end.reason}, exit status {end.code}"
    over = max(begin, written_at(job / "exit.json"))
    return Span(f"job {name}", own, parent, begin, over, {**facts, "tuneloop.reason": end.reason, **told}, error)


def without_unknown(facts: Mapping[str, Any]) -> dict[str, Fact]:
    """Without what was not measured."""
    return {key: value for key, value in facts.items() if value is not None}


def run_began(run: RunFolder) -> datetime:
    """When the run was first taken up."""
    first, _ = read_events(run.events, 0, 1)
    return first[0].at if first else BEGINNING


def trace_id(run: RunFolder) -> int:
    """Of the run's name and first moment: a deleted run and its namesake are two traces."""
    return _number(16, "trace", run.id, run_began(run).isoformat())


def span_id(run: RunFolder, *about: object) -> int:
    """Unique within the trace."""
    return _number(8, "span", run.id, *map(str, about))


def _number(count: int, *about: str) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(about).encode()).digest()[:count], "big") or 1


def written_at(file: Path) -> datetime:
    """When a file was written."""
    return datetime.fromtimestamp(file.stat().st_mtime, UTC)
