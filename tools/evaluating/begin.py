"""Begin an evaluation as a process of its own: it outlives who asked, and refuses as it would in a terminal."""

from __future__ import annotations

import difflib
from pathlib import Path

from tuneloop.core.errors import ToolError
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import Home
from tuneloop.core.locks import exclusive, is_locked
from tuneloop.sandboxes.detached import ended_first, start_command_line
from tuneloop.tools.disk import remove
from tuneloop.tools.evaluating.question import Question
from tuneloop.tools.evaluating.record import Record

PREFIX = "asked-"
ACCEPT_SECONDS = 30.0  # until it is taken or refused; what takes longer, a download say, is still on its way


def begin(home: Home, question: Question, own: str) -> Record:
    """The evaluation called `own`: begun, or found at work or over. Raises ToolError with the command line's own refusal."""
    record = Record(home.evaluations / f"{PREFIX}{own}")
    with exclusive(record.start):
        if not is_locked(record.lock) and not measured(record):
            for old in (record.outcome, record.progress, record.stop):
                old.unlink(missing_ok=True)
            write_json(record.request, question.model_dump(mode="json"))
            refusal = launched(record, question)
            if refusal:
                remove(record.root)
                raise ToolError(refusal)
    return record


def measured(record: Record) -> bool:
    """Whether there is a result, which is still all there."""
    return record.outcome.is_file() and Path(read_json(record.outcome).get("place", "/nowhere")).is_dir()


def launched(record: Record, question: Question) -> str:
    """Start the command line and wait until it has accepted; its refusal, "" when there is none."""
    words = ("eval", *question.options(), f"--record={record.root}", f"--out={record.root / 'results'}")
    ended = start_command_line(*words, cwd=Path.cwd(), log=record.log)
    if not ended_first(ended, lambda: record.accepted, ACCEPT_SECONDS):
        return ""
    if record.outcome.is_file():
        return str(read_json(record.outcome)["error"])
    lines = record.log.read_text(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("tuneloop: ") if lines else "the command line ended without a word"


def find(home: Home, own: str) -> Record:
    """The evaluation called `own`. Raises ToolError, which says the closest there is."""
    known = [path.name.removeprefix(PREFIX) for path in home.evaluations.glob(f"{PREFIX}*/")]
    if own not in known:
        close = difflib.get_close_matches(own, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "evaluate with model and benchmarks begins one"
        raise ToolError(f"no evaluation {own[:80]!r}: {hint}")
    return Record(home.evaluations / f"{PREFIX}{own}")
