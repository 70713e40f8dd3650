"""Turns of a run's nodes, read from `events.jsonl`; of a long log an index beside it holds what was read before."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tuneloop.core.errors import DamagedFileError
from tuneloop.core.event_log import parse_event, whole_blocks
from tuneloop.core.events import NodeFinished, NodeInterrupted, NodeStarted, RunPaused, RunStarted
from tuneloop.core.files import digest, open_plain, read_model, write_atomic

# Everything else is only a sign of life: it is not even parsed.
MARKS = (b'"kind":"node_', b'"kind":"run_')
WORTH = 1 << 20  # bytes that are read again rather than indexed
VERSION = 2
RESEARCH = -1  # its turn ends in another experiment than it begins in, and there is one at a time


class NodeTime(BaseModel):
    """One node of one experiment (0: the run itself) over all sessions; seconds."""

    model_config = ConfigDict(frozen=True)

    experiment: int
    node: str
    turns: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    cut: int = 0
    lost: float = 0.0
    jobs: float = 0.0
    attempts: int = 0
    cached: int = 0


def add_times(one: NodeTime, other: NodeTime) -> NodeTime:
    """Both together, under the first one's name."""
    numbers = ("turns", "seconds", "cpu", "cut", "lost", "jobs", "attempts", "cached")
    return one.model_copy(update={name: getattr(one, name) + getattr(other, name) for name in numbers})


class TurnIndex(BaseModel):
    """What the first `offset` bytes say: `parts` of nodes, and turns that were not over there, by experiment.

    `worked`: seconds in which any node worked, up to `since`, when the first of those that work now began. `last` is the size
    of the line that ends there, `mark` its hash: another log is not taken for this one.
    """

    version: int = VERSION
    offset: int = 0
    last: int = 0
    mark: str = ""
    begun: dict[int, NodeStarted] = {}
    worked: float = 0.0
    since: datetime | None = None
    parts: list[NodeTime] = []


def index_file(events: Path) -> Path:
    """`events.index.json`, beside the log; made again when it is missing, damaged, or of another log."""
    return events.with_name("events.index.json")


def node_turns(events: Path) -> list[NodeTime]:
    """Turns of each node of each experiment, added up; one cut without a word lasted until the last sign of life after it."""
    return read_turns(events).parts


def seconds_at_work(events: Path) -> float:
    """Seconds in which nodes worked, however many at once; of those that work now up to the last sign of life."""
    found = read_turns(events)
    last = line_time(line_before(events, found.offset, found.last)) if found.since else None
    open_ = (last - found.since).total_seconds() if last and found.since else 0.0
    return found.worked + max(0.0, open_)


def read_turns(events: Path) -> TurnIndex:
    """All that the log says; indexed where that saves reading much again."""
    kept = read_index(events)
    found = TurnScan(events, kept).read()
    if found.offset - kept.offset > WORTH:
        with contextlib.suppress(OSError):  # who may only read reads it again
            write_atomic(index_file(events), found.model_dump_json(exclude_defaults=True))
    return found


def read_index(events: Path) -> TurnIndex:
    """The index where it fits the log, else an empty one."""
    with contextlib.suppress(FileNotFoundError, DamagedFileError):
        kept = read_model(index_file(events), TurnIndex)
        if kept.version == VERSION and kept.mark == digest(line_before(events, kept.offset, kept.last)):
            return kept
    return TurnIndex()


def line_before(events: Path, end: int, size: int) -> bytes:
    """The `size` bytes before byte `end`. Raises FileNotFoundError."""
    with open_plain(events, most=1 << 40) as f:
        f.seek(max(0, end - size))
        return f.read(size)


class TurnScan:
    """One reading of a log, from where an index ends."""

    def __init__(self, events: Path, kept: TurnIndex) -> None:
        self.events, self.offset, self.begun = events, kept.offset, dict(kept.begun)
        self.worked, self.since = kept.worked, kept.since
        self.last = line_before(events, kept.offset, kept.last) if kept.last else b""
        self.parts = {(part.experiment, part.node): part for part in kept.parts}

    def read(self) -> TurnIndex:
        """Read to the end; the index of all."""
        for block in whole_blocks(self.events, self.offset):
            self.take_block(block)
            self.offset += len(block)
        return TurnIndex(
            offset=self.offset,
            last=len(self.last),
            mark=digest(self.last),
            begun=self.begun,
            worked=self.worked,
            since=self.since,
            parts=list(self.parts.values()),
        )

    def take_block(self, block: bytes) -> None:
        """Search whole lines as one text: of a million lines a few thousand are looked at."""
        found = sorted({line_start(block, at) for mark in MARKS for at in positions(block, mark)})
        for start in found:
            if start:
                self.last = block[line_start(block, start - 1) : start]
            self.take(block[start : block.index(b"\n", start) + 1])
        self.last = block[line_start(block, len(block) - 1) :]

    def take(self, line: bytes) -> None:
        """Add the turn that an event ends, keep the one that it begins."""
        event = parse_event(line)
        if isinstance(event, NodeFinished):
            done = NodeTime(experiment=event.experiment, node=event.node, turns=1, seconds=event.seconds, cpu=event.cpu)
            self.add(done)
            self.end(turn_key(event), event.at)
        elif isinstance(event, NodeInterrupted):
            self.add(NodeTime(experiment=event.experiment, node=event.node, cut=1, lost=event.seconds))
            self.end(turn_key(event), event.at)
        elif isinstance(event, NodeStarted):
            self.cut([turn_key(event)], line_time(self.last))
            self.begun[turn_key(event)] = event
            self.since = self.since or event.at
        elif isinstance(event, RunStarted | RunPaused):
            self.cut(list(self.begun), event.at if isinstance(event, RunPaused) else line_time(self.last))

    def cut(self, keys: Sequence[int], at: datetime | None) -> None:
        """Add turns that ended without a word."""
        for begun in [self.begun[key] for key in keys if key in self.begun]:
            self.add(interrupted_turn(begun, at))
            self.end(turn_key(begun), at)

    def end(self, key: int, at: datetime | None) -> None:
        """A turn is over; with the last of those that work at once their time is added."""
        self.begun.pop(key, None)
        if not self.begun and self.since is not None:
            self.worked += max(0.0, (at - self.since).total_seconds()) if at else 0.0
            self.since = None

    def add(self, part: NodeTime) -> None:
        """To what is known of that node."""
        key = (part.experiment, part.node)
        self.parts[key] = add_times(self.parts[key], part) if key in self.parts else part


def turn_key(event: NodeStarted | NodeFinished | NodeInterrupted) -> int:
    """Which of the turns that may be open at once: one of each experiment."""
    return RESEARCH if event.node == "research" else event.experiment


def interrupted_turn(begun: NodeStarted, end: datetime | None) -> NodeTime:
    """A turn that was not finished."""
    lost = max(0.0, (end - begun.at).total_seconds()) if end else 0.0
    # research opens the experiment after the one that it is begun in.
    number = begun.experiment + (begun.node == "research")
    return NodeTime(experiment=number, node=begun.node, cut=1, lost=lost)


def line_start(block: bytes, at: int) -> int:
    """Where the line begins that byte `at` belongs to."""
    return block.rfind(b"\n", 0, at) + 1


def positions(block: bytes, mark: bytes) -> Iterator[int]:
    """Every place of `mark`."""
    at = block.find(mark)
    while at >= 0:
        yield at
        at = block.find(mark, at + 1)


def line_time(line: bytes) -> datetime | None:
    """When a line was written; None when it is damaged."""
    event = parse_event(line)
    return event.at if event else None
