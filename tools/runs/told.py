"""Tell a run something, and say honestly what became of it."""

from __future__ import annotations

import time
from typing import Any

from tuneloop.core.bridge import pause
from tuneloop.core.errors import ToolError
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import is_locked
from tuneloop.tools.runs import talking
from tuneloop.tools.runs.inbox import put

TAKE_SECONDS = 5.0  # for whoever works on the run to take a message
GLANCE = 0.05


def say(run: RunFolder, text: str) -> dict[str, Any]:
    """Leave a message of the user's for the run; its answer, when it comes soon. Raises ToolError when the run is over."""
    if run.report_json.is_file():
        raise ToolError(f"run {run.id} is finished: nothing can be changed any more; start_run begins another")
    message = talking.say(run, text)
    file = run.inbox / f"{message}.json"
    if not is_locked(run.lock):
        note = "nobody works on the run now; it reads this first when it goes on (resume_run)"
        return {"run": run.id, "taken": False, "answer": None, "note": note}
    deadline = time.monotonic() + TAKE_SECONDS
    while (found := talking.answer(run, message)) is None and time.monotonic() < deadline:
        pause(GLANCE)
    taken = found is not None or not file.exists()
    note = (
        ("" if found else "heard; a chat model is asked what it means, the answer follows in its conversation")
        if taken
        else "not taken yet: the run looks at it between two steps of its work; run_status shows its directives"
    )
    return {"run": run.id, "taken": taken, "answer": found.text if found else None, "note": note}


def stop(run: RunFolder) -> dict[str, Any]:
    """Ask it to pause. Raises ToolError when nobody works on it: a request kept for later would stop a resume."""
    if not is_locked(run.lock):
        raise ToolError(f"nobody works on run {run.id} now: nothing to stop")
    put(run.inbox, do="pause")
    note = (
        "asked to pause; its job is ended and everything is kept. run_status says when it is paused, resume_run goes on"
    )
    return {"run": run.id, "asked": True, "note": note}
