"""An evaluation that works on its own: what it was asked, how far it is, and what came out, in a folder that others watch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tuneloop.core.errors import InfrastructureError, InvalidRequestError, PausedError, ToolError
from tuneloop.core.files import read_model, write_atomic, write_json
from tuneloop.core.locks import exclusive, is_locked
from tuneloop.core.score import Score
from tuneloop.tools.evaluation.standalone.measure import Measurement
from tuneloop.tools.evaluation.standalone.results import measurement_facts, read_set
from tuneloop.tools.hub.models import Progress

State = Literal["absent", "running", "over", "failed", "stopped", "lost"]
SECONDS = 1.0  # between two notes of progress


class ToldResult(BaseModel):
    """Of one benchmark."""

    model_config = ConfigDict(extra="allow")

    benchmark: str


class Told(BaseModel):
    """`progress.json` or `outcome.json`: `place` where it was measured, `error` where it was not."""

    model_config = ConfigDict(extra="allow")

    accepted: bool = False
    note: str = ""
    done: int = 0
    total: int = 0
    place: str = ""
    error: str = ""
    name: str = ""
    results: tuple[ToldResult, ...] = ()


@dataclass(frozen=True)
class EvaluationRecord:
    """The folder. `outcome.json` is written last: with a `place` it was measured, with an `error` it was not."""

    root: Path

    @property
    def request(self) -> Path:
        """`request.json`: what was asked."""
        return self.root / "request.json"

    @property
    def lock(self) -> Path:
        """Held while it is at work."""
        return self.root / "lock"

    @property
    def start(self) -> Path:
        """Held while somebody starts it."""
        return self.root / "start.lock"

    @property
    def log(self) -> Path:
        """`command.log`: both streams of its process."""
        return self.root / "command.log"

    @property
    def progress(self) -> Path:
        """`progress.json`: whether it was accepted, what is done, of how much."""
        return self.root / "progress.json"

    @property
    def outcome(self) -> Path:
        """`outcome.json`."""
        return self.root / "outcome.json"

    @property
    def stop(self) -> Path:
        """`stop`: somebody wants it to end."""
        return self.root / "stop"

    @property
    def state(self) -> State:
        """Derived from what is there."""
        if is_locked(self.lock) or is_locked(self.start):
            return "running"
        if self.outcome.is_file():
            return "over" if self.told.place else "failed"
        if not self.request.is_file():
            return "absent"
        return "stopped" if self.stop.exists() else "lost"

    @property
    def accepted(self) -> bool:
        """Whether everything was looked at and it measures, or has measured."""
        return any(f.is_file() and read_model(f, Told).accepted for f in (self.progress, self.outcome))

    @property
    def told(self) -> Told:
        """What came out. Raises FileNotFoundError, or DamagedFileError."""
        return read_model(self.outcome, Told)

    @property
    def benchmarks(self) -> list[str]:
        """What it measured. Raises ToolError while it has not."""
        if self.state != "over":
            raise ToolError(f"this evaluation has no score, it is {self.state}: get_result says more")
        return [row.benchmark for row in self.told.results]

    def score(self, benchmark: str = "") -> tuple[Score, dict[str, str], int]:
        """A benchmark's score with its items, "" the first; the prompts by id, and how many tokens a reply may have.

        Raises ToolError where there is none.
        """
        names = self.benchmarks
        if benchmark and benchmark not in names:
            raise ToolError(f"no benchmark {benchmark!r} in this evaluation; there are {', '.join(names)}")
        told = self.told
        return read_set(Path(told.place), told.name, benchmark or names[0])


class RecordWriter:
    """Writes the record of the evaluation that this process is."""

    def __init__(self, record: EvaluationRecord | None) -> None:
        """`record` None: nobody watches."""
        self.record = record
        self._last = ("", 0.0)

    def watched(self, say: Progress, *, accepted: bool) -> Progress:
        """`say`, written down too; raises PausedError when somebody wants it to end."""
        record = self.record
        if record is None:
            return say

        def both(note: str, done: int, total: int) -> None:
            say(note, done, total)
            if record.stop.exists():
                raise PausedError("stopped on request")
            now = time.monotonic()
            if note != self._last[0] or now - self._last[1] >= SECONDS:
                self._last = note, now
                write_json(record.progress, {"accepted": accepted, "note": note, "done": done, "total": total})

        return both

    def keep(self, found: Measurement, place: Path) -> None:
        """It was measured."""
        if self.record is not None:
            write_json(self.record.outcome, {"accepted": True, **measurement_facts(found), "place": str(place)})


@contextmanager
def finishing_record(root: Path | None) -> Iterator[RecordWriter]:
    """Hold the record's lock, and write down why there is no result; one that was stopped ends here without a word."""
    if root is None:
        yield RecordWriter(None)
        return
    record = EvaluationRecord(root)
    with exclusive(record.lock):
        try:
            yield RecordWriter(record)
        except (InvalidRequestError, InfrastructureError) as e:
            write_json(record.outcome, {"accepted": record.accepted, "error": str(e)})
            raise
        except PausedError:
            return


def request_stop(record: EvaluationRecord) -> None:
    """Whoever works on it ends its job; what was answered is found the next time."""
    if record.state == "running":
        write_atomic(record.stop, "")
