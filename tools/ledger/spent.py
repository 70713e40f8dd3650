"""What a run has spent, from what is booked anyway: its ledger, its events, its jobs' folders."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Literal

from tuneloop.core.files import read_json
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.ledger import Amounts, Spent
from tuneloop.tools.disk import bytes_below
from tuneloop.tools.ledger.devices import gpu_hours
from tuneloop.tools.llm_proxy.ledger import Entry, Sums, read_ledger, sums
from tuneloop.tools.report.timing import turns
from tuneloop.tools.runs.journal import load_journal

Who = Literal["agents", "data scripts", "judge"]


def spent(run: RunFolder, seconds: float | None = None) -> Spent:
    """Everything but disk; `seconds` of work by who knows them, else from the events."""
    rows = entries(run)
    return Spent(
        seconds=work(run) if seconds is None else max(0.0, seconds),
        gpu_hours=sum(gpu_hours(run).values()),
        tokens=tokens(rows),
        money=money(rows),
        unpriced=tuple(sorted({e.model for e in rows if e.paid and e.cost is None})),
    )


def with_disk(run: RunFolder, found: Spent) -> Spent:
    """The same with the bytes of the run's folder, which takes a walk through it."""
    return found.model_copy(update={"disk": bytes_below(run.root)})


def of_experiments(run: RunFolder) -> dict[int, Amounts]:
    """What each experiment that is over took; without what a fork stands on."""
    hours, rows = gpu_hours(run), entries(run)
    before = int(read_json(run.fork)["at"]) if run.fork.is_file() else 0
    found = {}
    for e in load_journal(run).experiments:
        if e.number > before:
            own = [row for row in rows if row.experiment == e.number]
            found[e.number] = Amounts(
                seconds=e.seconds, gpu_hours=hours.get(e.number, 0.0), tokens=tokens(own), money=money(own)
            )
    return found


def by_whom(run: RunFolder) -> dict[tuple[Who, str], Sums]:
    """Agents, data scripts or judge, and model → what they asked of it."""
    rows: dict[tuple[Who, str], list[Entry]] = {}
    for entry in entries(run):
        if entry.model:
            rows.setdefault((who(entry), entry.model), []).append(entry)
    return {key: sums(found) for key, found in sorted(rows.items())}


def who(entry: Entry) -> Who:
    """Whose request it was."""
    if entry.job.startswith("agent:"):
        return "agents"
    return "judge" if entry.job.endswith("judge") else "data scripts"


def entries(run: RunFolder) -> tuple[Entry, ...]:
    """Everything booked, and what is set aside for what is under way or was when somebody was killed."""
    settled = booked(run)
    proxy = Home(run.root.parent.parent).proxies / run.id / "begun.jsonl"
    begun = [entry for file in (*run.root.glob("*calls_begun.jsonl"), proxy) for entry in _read(file)]
    if not begun:
        return settled
    known = {entry.id for entry in settled}
    return (*settled, *(entry for entry in begun if entry.id not in known))


def booked(run: RunFolder) -> tuple[Entry, ...]:
    """What is settled, nothing that is only set aside."""
    return _read(run.ledger)


def _read(path: Path) -> tuple[Entry, ...]:
    try:
        there = path.stat()
    except FileNotFoundError:
        return ()
    return _parsed(path, there.st_size, there.st_mtime_ns)


@lru_cache(maxsize=16)  # asked at every step, and a ledger may have thousands of lines
def _parsed(path: Path, size: int, written: int) -> tuple[Entry, ...]:  # noqa: ARG001
    return tuple(read_ledger(path))


def tokens(rows: Iterable[Entry]) -> int:
    """In and out, of what counts."""
    return sum(entry.tokens_in + entry.tokens_out for entry in rows if entry.paid)


def money(rows: Iterable[Entry]) -> float:
    """USD, as far as prices are known."""
    return sum(entry.cost or 0.0 for entry in rows if entry.paid)


def work(run: RunFolder) -> float:
    """Seconds of work over all sittings, turns that were cut short too.

    What closed experiments and the turns since say; all turns, if that is more.
    """
    closed = load_journal(run).experiments
    took = [(part.experiment, part.seconds + part.lost) for part in turns(run.events)]
    prepared = run.baseline / "spent.json"
    known = float(read_json(prepared)["seconds"]) if prepared.is_file() else 0.0
    known += sum(e.seconds for e in closed) + sum(seconds for number, seconds in took if number > len(closed))
    return max(known, sum(seconds for _, seconds in took))
