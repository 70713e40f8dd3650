"""What a run is doing this moment, and why one that nobody works on has stopped."""

from __future__ import annotations

from typing import Any

from tuneloop.core.directive import Directive
from tuneloop.core.directive_log import read_directives
from tuneloop.core.event_log import last_event
from tuneloop.core.events import Event, JobProgress, Problem, RunPaused
from tuneloop.core.layout import RunFolder
from tuneloop.tools.runs.status import TAIL, RunState

UNSAID = "its process ended without saying why; command.log in its folder may tell, resume_run goes on"


def doing(run: RunFolder, state: RunState) -> dict[str, Any]:
    """`job`: progress of the job at hand; `trouble`: the newest that was met; `paused_because`; `directives` that hold."""
    begun, at_work = _last(run, "node_started"), _last(run, "run_started")
    job, problem, paused = _last(run, "job_progress"), _last(run, "problem"), _last(run, "run_paused")
    return {
        "job": _progress(job) if isinstance(job, JobProgress) and state == "running" and _after(job, begun) else None,
        "trouble": problem.text if isinstance(problem, Problem) and _after(problem, at_work) else None,
        "paused_because": _why(paused, at_work) if state == "paused" else None,
        "directives": [_directive(d) for d in read_directives(run.directives) if d.state == "open"],
    }


def _last(run: RunFolder, kind: str) -> Event | None:
    return last_event(run.events, kind, TAIL)


def _directive(directive: Directive) -> dict[str, Any]:
    return {"id": directive.id, "text": directive.text, "kind": directive.command.kind, "state": directive.state}


def _after(event: Event, other: Event | None) -> bool:
    return other is None or event.at >= other.at


def _progress(job: JobProgress) -> dict[str, Any]:
    return {"name": job.job, "done": job.done, "total": job.total, "unit": job.unit, "note": job.note}


def _why(paused: Event | None, at_work: Event | None) -> str:
    return paused.reason if isinstance(paused, RunPaused) and _after(paused, at_work) else UNSAID
