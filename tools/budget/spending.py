"""What a run has spent, from what is booked anyway: its ledger, its events, its jobs' folders."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from tuneloop.core.budget import Amounts, Spent
from tuneloop.core.files import read_field, read_model
from tuneloop.core.job import ALIVE, CLAIM, TICKET
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.locks import is_locked
from tuneloop.tools.housekeeping.disk import bytes_below
from tuneloop.tools.llm_proxy.ledger import Entry, Sums, read_ledger, sums
from tuneloop.tools.report.timing import job_attempts, job_seconds, remember_over
from tuneloop.tools.report.turns import node_turns, seconds_at_work
from tuneloop.tools.runs.journal import load_journal
from tuneloop.tools.runs.manifest import read_spec

# GPU-hours: devices times hours of every job that may use them, from the jobs' folders; 0 on a CPU.

ALL = "all"


def gpu_hours(run: RunFolder) -> dict[int, float]:
    """Experiment → hours; 0: those of the run itself. Of a fork only what it did itself."""
    found: defaultdict[int, float] = defaultdict(float)
    if computes_on_gpus(run):
        for number, jobs in job_folders(run):
            if jobs.is_dir():
                found[number] += remember_over("GPU-hours", jobs, partial(hours_of_jobs, jobs))
    return dict(found)


def computes_on_gpus(run: RunFolder) -> bool:
    """Whether `prepare` settled on a GPU."""
    return run.setup.is_file() and read_model(run.setup, dict[str, Any]).get("device", "cpu") != "cpu"


def hours_of_jobs(jobs: Path) -> float:
    """GPU-hours of all attempts in a folder of jobs."""
    return sum(device_count(job) * attempt_seconds(job) / 3600 for job in job_attempts(jobs))


def job_folders(run: RunFolder) -> list[tuple[int, Path]]:
    """Folders of jobs, and the experiment they belong to; what a fork stands on is not its own."""
    before = read_field(run.fork, "at", int) if run.fork.is_file() else -1
    own = [
        (0, run.final / "jobs"),
        *([(0, place / "jobs") for place in run.preparations] if before < 0 else []),
    ]
    for place in sorted(run.experiments.glob("[0-9]*")):
        if int(place.name) > before:
            further = place.glob("seeds/[0-9]*/jobs") if (place / "seeds").is_dir() else ()
            own += [(int(place.name), jobs) for jobs in (place / "jobs", *further)]
    return own


CLAIM_WORDS = 3  # of a runner: node, number, devices


def attempt_seconds(job: Path) -> float:
    """Of an attempt that is over, or that runs; on a cluster from its beginning there to its last sign of life.

    Its runner takes the sign away at an end that it saw itself; where it stays the attempt was lost, or ended by others.
    """
    if ((job / TICKET).is_file() and not (job / "exit.json").is_file()) or (job / ALIVE).is_file():
        signs = [job / name for name in (CLAIM, ALIVE)]
        first, last = (sign.stat().st_mtime if sign.is_file() else 0.0 for sign in signs)
        return max(0.0, last - first) if first else 0.0
    begun = (job / "command.json").stat().st_mtime
    return max(0.0, time.time() - begun) if is_locked(job / "lock") else job_seconds(job)


def device_count(job: Path) -> int:
    """How many a job may use: none where they are hidden from it, as from all code that models write.

    On a cluster as many as its runner found there.
    """
    if (job / CLAIM).is_file():
        words = (job / CLAIM).read_text().split()
        return int(words[-1]) if len(words) == CLAIM_WORDS and words[-1].isdecimal() else 0
    return _devices(job / "command.json", (job / "command.json").stat().st_mtime_ns)


def node_gpus(run: RunFolder) -> int:
    """GPUs that the newest job of the run had on its node; 1 before any has run on one."""
    for _, jobs in reversed(job_folders(run)):
        claims = [claim for claim in jobs.glob(f"*.[0-9]*/{CLAIM}") if device_count(claim.parent)]
        if claims:
            return device_count(max(claims, key=lambda claim: claim.stat().st_mtime).parent)
    return 1


class AskedDevices(BaseModel):
    """What of `command.json` says how many devices a job may use."""

    env: dict[str, str] = {}
    generated: bool = False


@lru_cache(maxsize=10_000)
def _devices(command: Path, written: int) -> int:  # noqa: ARG001 - another attempt is another command
    told = read_model(command, AskedDevices)
    named = told.env.get("CUDA_VISIBLE_DEVICES", "" if told.generated else ALL)
    return gpu_count() if named == ALL else len([name for name in named.split(",") if name.strip()])


def gpu_count() -> int:
    """GPUs of this machine; at least one, where a run computes on one."""
    return max(1, len(list(Path("/dev").glob("nvidia[0-9]*"))))


Who = Literal["agents", "data scripts", "judge"]


def run_spending(run: RunFolder, seconds: float | None = None) -> Spent:
    """Everything but disk; `seconds` of work by who knows them, else from the events."""
    rows = all_entries(run)
    return Spent(
        seconds=seconds_worked(run) if seconds is None else max(0.0, seconds),
        gpu_hours=sum(gpu_hours(run).values()),
        tokens=total_tokens(rows),
        money=total_cost(rows),
        unpriced=tuple(sorted({e.model for e in rows if e.paid and e.cost is None})),
    )


def with_disk(run: RunFolder, found: Spent) -> Spent:
    """The same with the bytes of the run's folder, which takes a walk through it."""
    return found.model_copy(update={"disk": bytes_below(run.root)})


def experiment_spending(run: RunFolder) -> dict[int, Amounts]:
    """What each experiment that is over took; without what a fork stands on."""
    before = read_field(run.fork, "at", int) if run.fork.is_file() else 0
    seconds = {e.number: e.seconds for e in load_journal(run).experiments if e.number > before}
    return amounts_of(run, seconds)


def amounts_of(run: RunFolder, seconds: Mapping[int, float]) -> dict[int, Amounts]:
    """What experiments took that worked for so many `seconds`."""
    hours, rows = gpu_hours(run), all_entries(run)
    own = {number: [row for row in rows if row.experiment == number] for number in seconds}
    return {
        number: Amounts(
            seconds=took,
            gpu_hours=hours.get(number, 0.0),
            tokens=total_tokens(own[number]),
            money=total_cost(own[number]),
        )
        for number, took in seconds.items()
    }


def spending_by_requester(run: RunFolder) -> dict[tuple[Who, str], Sums]:
    """Agents, data scripts or judge, and model → what they asked of it."""
    rows: dict[tuple[Who, str], list[Entry]] = {}
    for entry in all_entries(run):
        if entry.model:
            rows.setdefault((requester(entry), entry.model), []).append(entry)
    return {key: sums(found) for key, found in sorted(rows.items())}


def requester(entry: Entry) -> Who:
    """Whose request it was."""
    if entry.job.startswith("agent:"):
        return "agents"
    return "judge" if entry.job.endswith("judge") else "data scripts"


def all_entries(run: RunFolder) -> tuple[Entry, ...]:
    """Everything booked, and what is set aside for what is under way or was when somebody was killed."""
    settled = booked_entries(run)
    proxy = Home(run.root.parent.parent).proxies / run.id / "begun.jsonl"
    begun = [entry for file in (*run.root.glob("*calls_begun.jsonl"), proxy) for entry in _read(file)]
    if not begun:
        return settled
    known = {entry.id for entry in settled}
    return (*settled, *(entry for entry in begun if entry.id not in known))


def booked_entries(run: RunFolder) -> tuple[Entry, ...]:
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


def total_tokens(rows: Iterable[Entry]) -> int:
    """In and out, of what counts."""
    return sum(entry.tokens_in + entry.tokens_out for entry in rows if entry.paid)


def total_cost(rows: Iterable[Entry]) -> float:
    """USD, as far as prices are known."""
    return sum(entry.cost or 0.0 for entry in rows if entry.paid)


def seconds_worked(run: RunFolder) -> float:
    """Seconds of work over all sessions, turns that were cut short too; of experiments side by side the time that passed.

    What closed experiments and the turns since say; all turns, if that is more.
    """
    closed = load_journal(run).experiments
    prepared = run.baseline / "spent.json"
    known = read_field(prepared, "seconds", float) if prepared.is_file() else 0.0
    if run.spec.is_file() and read_spec(run).parallel > 1:
        inherited = 0.0  # a fork's limit counts from what it stands on, its preparation included
        if run.fork.is_file():
            inherited = known + sum(e.seconds for e in closed[: read_field(run.fork, "at", int)])
        return seconds_at_work(run.events) + inherited
    took = [(part.experiment, part.seconds + part.lost) for part in node_turns(run.events)]
    known += sum(e.seconds for e in closed) + sum(seconds for number, seconds in took if number > len(closed))
    return max(known, sum(seconds for _, seconds in took))
