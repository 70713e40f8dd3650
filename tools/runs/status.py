"""Where a run stands, read from its folder alone: any length of run, no graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from tuneloop.core.budget import Limits, Spent, spending_lines
from tuneloop.core.directive import Directive
from tuneloop.core.directive_log import read_directives
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.event_log import events_backwards, last_event
from tuneloop.core.events import (
    Event,
    JobProgress,
    NodeFinished,
    NodeInterrupted,
    NodeStarted,
    RecipeFailure,
    RunPaused,
)
from tuneloop.core.experiment import Experiment, Hypothesis, Journal
from tuneloop.core.files import read_model
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_lease import find_holder, is_worked_on
from tuneloop.core.score import Score
from tuneloop.tools.budget.limits import current_limits
from tuneloop.tools.budget.spending import run_spending, with_disk
from tuneloop.tools.runs.evidence import is_prepared
from tuneloop.tools.runs.journal import baseline_score, load_journal
from tuneloop.tools.runs.manifest import base_model_of, read_spec

RunState = Literal["new", "running", "paused", "finished"]
NodeEnd = NodeFinished | NodeInterrupted

TAIL = 1 << 18  # bytes of the log in which something new is looked for
FAR = 1 << 26  # in which the starts of nodes at work are: no more is read than up to the oldest of them


@dataclass(frozen=True)
class OpenExperiment:
    """An experiment that is not over (0: the base model is prepared) and what is known of it.

    `ended`: its node is done or was interrupted; `job`: the node's newest progress; `seconds`: since the node began,
    None while nobody works on it.
    """

    number: int
    begun: NodeStarted
    ended: NodeEnd | None
    job: JobProgress | None
    statement: str
    seconds: float | None

    @property
    def place(self) -> str:
        """`at train`, or what it waits after."""
        return f"{'waits after' if isinstance(self.ended, NodeFinished) else 'at'} {self.begun.node}"


@dataclass(frozen=True)
class RunStatus:
    """Where a run stands."""

    id: str
    state: RunState
    benchmark: str
    evaluated: bool
    base_model: str
    stage: str
    experiment: int
    baseline: Score | None
    journal: Journal
    report: Path | None
    open: tuple[OpenExperiment, ...]
    spent: Spent
    limits: Limits
    host: str = ""

    @property
    def best(self) -> Experiment | None:
        """The incumbent."""
        return self.journal.best

    @property
    def place(self) -> str:
        """`at train`, or how many experiments are open."""
        return f"with {len(self.open)} open experiments" if len(self.open) > 1 else f"at {self.stage}"


def run_state(run: RunFolder) -> RunState:
    """In one word."""
    if is_worked_on(run.root):
        return "running"
    if run.report_json.is_file():
        return "finished"
    return "paused" if run.events.is_file() else "new"


def run_status(run: RunFolder) -> RunStatus:
    """Everything `tuneloop status` shows. Raises InvalidRequestError when there is no such run."""
    spec = read_spec(run)
    stage, experiment = last_node(run)
    journal = load_journal(run)
    finished = run.report_json.is_file()
    return RunStatus(
        id=run.id,
        state=run_state(run),
        benchmark=Path(spec.benchmark).name,
        evaluated=spec.evaluated,
        base_model=Path(base).name if Path(base := base_model_of(run, spec)).is_absolute() else base,
        stage="finished" if finished else stage,
        experiment=experiment,
        baseline=baseline_score(run),
        journal=journal,
        report=run.report if finished else None,
        open=() if finished else open_experiments(run, journal),
        spent=with_disk(run, run_spending(run)),
        limits=current_limits(run, spec),
        host=host_of(run),
    )


def host_of(run: RunFolder) -> str:
    """The machine on which a process works on the run; "" where none does."""
    holder = find_holder(run.root)
    return holder.host if holder else ""


def open_experiments(run: RunFolder, journal: Journal) -> tuple[OpenExperiment, ...]:
    """Those that have begun and are not in the journal, by number; none between experiments."""
    number = len(journal.experiments) + 1
    wanted = set() if is_prepared(run) else {0}
    while run.experiment(number).root.is_dir():
        wanted.add(number)
        number += 1
    if not wanted:
        return ()
    jobs = dict[int, JobProgress]()
    for event in events_backwards(run.events, TAIL * max(1, len(wanted)), "job_progress"):
        if isinstance(event, JobProgress):
            jobs.setdefault(event.experiment, event)
    at_work = is_worked_on(run.root)
    found = [open_experiment(run, *turn, jobs, at_work) for turn in newest_turns(run, wanted)]
    # No hypothesis is left by a node that prepared the base model, nor by a researcher that proposed to stop.
    open_ = [one for one in found if one.statement or not isinstance(one.ended, NodeFinished)]
    return tuple(sorted(open_, key=lambda one: one.number))


def newest_turns(run: RunFolder, wanted: set[int]) -> Iterator[tuple[NodeStarted, NodeEnd | None]]:
    """The newest node of each of these experiments, and what ended it."""
    ends, missing = list[NodeEnd](), set(wanted)
    for event in events_backwards(run.events, FAR, "node_started", "node_finished", "node_interrupted"):
        if isinstance(event, NodeFinished | NodeInterrupted):
            ends.append(event)
        elif isinstance(event, NodeStarted) and event.about in missing:
            missing.remove(event.about)
            yield event, next(filter(event.ended_by, reversed(ends)), None)
        if not missing:
            return


def open_experiment(
    run: RunFolder, begun: NodeStarted, ended: NodeEnd | None, jobs: Mapping[int, JobProgress], at_work: bool
) -> OpenExperiment:
    """With its idea, its job, and for how long its node has worked."""
    file, job = run.experiment(begun.about).hypothesis, jobs.get(begun.about)
    return OpenExperiment(
        number=begun.about,
        begun=begun,
        ended=ended,
        job=job if job and not ended and _is_newer(job, begun) else None,
        statement=read_model(file, Hypothesis).statement if begun.about and file.is_file() else "",
        seconds=(datetime.now(UTC) - begun.at).total_seconds() if at_work and not ended else None,
    )


def last_node(run: RunFolder) -> tuple[str, int]:
    """Node and experiment of the newest `node_started` event."""
    found = last_event(run.events, "node_started", FAR)
    return (found.node, found.experiment) if isinstance(found, NodeStarted) else ("new", 0)


def status_facts(status: RunStatus) -> dict[str, Any]:
    """The status as plain JSON values; scores as `value n low high`, 0-100."""
    return {
        "run_id": status.id,
        "state": status.state,
        "host": status.host,
        "benchmark": status.benchmark,
        "evaluated": status.evaluated,
        "base_model": status.base_model,
        "stage": status.stage,
        "experiment": status.experiment,
        "baseline": score_facts(status.baseline),
        "best": status.best.number if status.best else None,
        "experiments": [experiment_row(e) for e in status.journal.experiments],
        "spent": budget_facts(status.spent, status.limits),
        "open": [_open_facts(one) for one in status.open],
        "report": str(status.report) if status.report else None,
    }


def _open_facts(one: OpenExperiment) -> dict[str, Any]:
    job = one.job and {"name": one.job.job, **one.job.model_dump(include={"done", "total", "unit", "note"})}
    place = {"number": one.number, "node": one.begun.node, "waits": one.ended is not None}
    return {**place, "hypothesis": one.statement, "seconds": one.seconds, "job": job}


def budget_facts(used: Spent, allowed: Limits) -> dict[str, Any]:
    """Spent, limit and left of each: seconds, GPU-hours, tokens, USD; null: no limit."""
    rows: dict[str, Any] = {
        line.kind: {"spent": line.spent, "limit": line.limit, "left": line.left}
        for line in spending_lines(used, allowed)
    }
    return {**rows, "disk": used.disk, "unpriced": list(used.unpriced)}


def score_facts(score: Score | None) -> dict[str, float] | None:
    """A score without its items."""
    return score.model_dump(include={"value", "n", "low", "high"}) if score else None


def experiment_row(e: Experiment) -> dict[str, Any]:
    """One experiment."""
    failure, compared = e.failure.text if e.failure else None, e.feedback.comparison
    return {
        "number": e.number,
        "outcome": e.outcome,
        "hypothesis": e.hypothesis.statement,
        "validation": score_facts(e.score),
        "gain": compared.model_dump(include={"n", "gain", "low", "high"}) if compared else None,
        "failure": failure,
        "seconds": e.seconds,
    }


def run_row(run: RunFolder) -> dict[str, str]:
    """One run; a manifest that cannot be read is said in its place."""
    try:
        spec = read_spec(run)
    except InvalidRequestError as e:
        return {"name": run.id, "state": "unreadable", "host": "", "benchmark": str(e), "base_model": ""}
    return {
        "name": run.id,
        "state": run_state(run),
        "host": host_of(run),
        "benchmark": spec.benchmark,
        "base_model": base_model_of(run, spec),
    }


# What a run is doing this moment, and why one that nobody works on has stopped.

UNSAID = "its process ended without saying why; command.log in its folder may tell, resume_run goes on"


def current_activity(run: RunFolder, state: RunState) -> dict[str, Any]:
    """`trouble`: the newest failure that was met; `paused_because`; `directives` that hold."""
    at_work, problem, paused = _last(run, "run_started"), _last(run, "recipe_failure"), _last(run, "run_paused")
    return {
        "trouble": problem.text if isinstance(problem, RecipeFailure) and _is_newer(problem, at_work) else None,
        "paused_because": _pause_reason(paused, at_work) if state == "paused" else None,
        "directives": [_directive(d) for d in read_directives(run.directives) if d.state == "open"],
    }


def _last(run: RunFolder, kind: str) -> Event | None:
    return last_event(run.events, kind, TAIL)


def _directive(directive: Directive) -> dict[str, Any]:
    return {"id": directive.id, "text": directive.text, "kind": directive.command.kind, "state": directive.state}


def _is_newer(event: Event, other: Event | None) -> bool:
    return other is None or event.at >= other.at


def _pause_reason(paused: Event | None, at_work: Event | None) -> str:
    return paused.reason if isinstance(paused, RunPaused) and _is_newer(paused, at_work) else UNSAID
