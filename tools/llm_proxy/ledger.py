"""`ledger.jsonl` of a run: one line per request, also for requests that were under way when the proxy was killed.

A request is noted in `begun.jsonl` before it is sent. A new proxy books the requests noted there without a line in the
ledger, with the tokens reserved for them. No line holds text of a request or an answer.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from tuneloop.core.files import raw_lines

Outcome = Literal["answered", "cached", "refused", "failed", "cut", "killed"]


class Entry(BaseModel):
    """One request; `cost` in USD, None: the price is unknown.

    `estimated`: the provider did not report the tokens; `tokens_cached`: input tokens from the provider's cache;
    `experiment`: 0 for requests of the run itself.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    at: float
    job: str
    model: str
    endpoint: str
    outcome: Outcome
    status: int
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    experiment: int = 0
    cost: float | None = None
    estimated: bool = False
    stream: bool = False
    tries: int = 0
    seconds: float = 0
    code: str = ""

    @property
    def paid(self) -> bool:
        """Whether it counts against limits: it reached the provider."""
        return self.outcome in ("answered", "cut", "killed") or (self.outcome == "failed" and self.tries > 0)


def experiment_of(endpoint: str) -> int:
    """The experiment of a job, from its endpoint's name; 0: the run itself."""
    found = re.match(r"experiments-(\d+)-", endpoint)
    return int(found[1]) if found else 0


def new_id() -> str:
    """A random request id."""
    return secrets.token_hex(8)


class Ledger:
    """The writer; each line is one write."""

    def __init__(self, path: Path, begun: Path) -> None:
        self.path, self._begun = path, begun
        known = {entry.id for entry in read_ledger(path)}
        self._file = _open(path)
        for entry in read_ledger(begun):
            if entry.id not in known:
                _append(self._file, entry)
        begun.unlink(missing_ok=True)
        self._notes, self._unbooked = _open(begun), False

    def begin(self, entry: Entry) -> None:
        """Note a request before it is sent, as it is booked after a kill. Raises OSError."""
        _append(self._notes, entry)

    def write(self, entry: Entry) -> None:
        """Book a request that has ended. Raises OSError."""
        try:
            _append(self._file, entry)
        except OSError:
            self._unbooked = True
            raise

    def close(self) -> None:
        """Close both files; no request is under way."""
        os.close(self._file)
        os.close(self._notes)
        if not self._unbooked:
            self._begun.unlink(missing_ok=True)


def read_ledger(path: Path) -> Iterator[Entry]:
    """Every whole line; torn ones are skipped."""
    for row in _rows(path):
        with contextlib.suppress(ValidationError):
            yield Entry.model_validate(row)


class Sums(BaseModel):
    """Totals of paid requests (cost None: some price is unknown), and counts of the others."""

    model_config = ConfigDict(frozen=True)

    requests: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int = 0
    cost: float | None
    cached: int
    refused: int
    failed: int


def sums(entries: Iterable[Entry]) -> Sums:
    """The totals of some entries."""
    rows = list(entries)
    paid = [entry for entry in rows if entry.paid]
    costs = [entry.cost for entry in paid if entry.cost is not None]
    return Sums(
        requests=len(paid),
        tokens_in=sum(entry.tokens_in for entry in paid),
        tokens_out=sum(entry.tokens_out for entry in paid),
        tokens_cached=sum(entry.tokens_cached for entry in paid),
        cost=sum(costs) if len(costs) == len(paid) else None,
        cached=sum(entry.outcome == "cached" for entry in rows),
        refused=sum(entry.outcome == "refused" for entry in rows),
        failed=sum(entry.outcome in ("failed", "cut", "killed") for entry in rows),
    )


def sums_by_job(path: Path) -> dict[str, Sums]:
    """The totals of each job of a run, by its first request."""
    rows: dict[str, list[Entry]] = {}
    for entry in read_ledger(path):
        rows.setdefault(entry.job, []).append(entry)
    return {job: sums(found) for job, found in rows.items()}


def _rows(path: Path) -> Iterator[Any]:
    if not path.is_file():
        return
    for line in raw_lines(path):
        with contextlib.suppress(ValueError):
            yield json.loads(line.decode(errors="replace"))


def _open(path: Path) -> int:
    """Open for appending, at the beginning of a line."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    size = os.fstat(handle).st_size
    if size and os.pread(handle, 1, size - 1) != b"\n":
        os.write(handle, b"\n")
    return handle


def _append(handle: int, entry: Entry) -> None:
    """Append in one write; a line torn by a full disk is truncated. Raises OSError.

    Under the file's lock: the proxy and the run's agents share the file, and neither may truncate the other's line.
    """
    data = entry.model_dump_json().encode() + b"\n"
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        size = os.fstat(handle).st_size
        if os.write(handle, data) != len(data):
            os.ftruncate(handle, size)
            raise OSError("the disk is full")
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)


def now() -> float:
    """Seconds since 1970."""
    return round(time.time(), 3)
