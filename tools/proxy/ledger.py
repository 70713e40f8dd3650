"""`ledger.jsonl` of a run: one line per request; what was under way when the proxy was killed is counted as well.

A request is noted in `begun.jsonl` before it leaves. A proxy that starts finds there what has no line in the ledger and
books it with the tokens that were set aside. No line holds words of a request or an answer.
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

Outcome = Literal["answered", "cached", "refused", "failed", "cut", "killed"]


class Entry(BaseModel):
    """One request; `cost` in USD, None: nobody knows the price.

    `estimated`: nobody said how many tokens it took; `tokens_cached`: of those in, read from the provider's cache;
    `experiment`: 0 for those of the run itself.
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
        """Whether it counts against limits: it reached a provider."""
        return self.outcome in ("answered", "cut", "killed") or (self.outcome == "failed" and self.tries > 0)


def experiment_of(door: str) -> int:
    """The experiment of a job by the name of its door; 0: the run itself."""
    found = re.match(r"experiments-(\d+)-", door)
    return int(found[1]) if found else 0


def new_id() -> str:
    """A name for a request."""
    return secrets.token_hex(8)


class Ledger:
    """Appends; each line is one write."""

    def __init__(self, path: Path, begun: Path) -> None:
        self.path, self._begun = path, begun
        known = {entry.id for entry in read_ledger(path)}
        self._file = _open(path)
        for entry in read_ledger(begun):
            if entry.id not in known:
                _append(self._file, entry)
        begun.unlink(missing_ok=True)
        self._notes, self._owes = _open(begun), False

    def begin(self, entry: Entry) -> None:
        """Note a request before it leaves, as it is to be booked should nobody come back. Raises OSError."""
        _append(self._notes, entry)

    def write(self, entry: Entry) -> None:
        """Book it. Raises OSError."""
        try:
            _append(self._file, entry)
        except OSError:
            self._owes = True
            raise

    def close(self) -> None:
        """Nothing is under way any more."""
        os.close(self._file)
        os.close(self._notes)
        if not self._owes:
            self._begun.unlink(missing_ok=True)


def read_ledger(path: Path) -> Iterator[Entry]:
    """Every whole line; a torn one is left out."""
    for row in _rows(path):
        with contextlib.suppress(ValidationError):
            yield Entry.model_validate(row)


class Sums(BaseModel):
    """Paid requests with their tokens and cost (None: of some nobody knows the price), and the others."""

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
    """Of some lines."""
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
    """What each job of a run asked, in the order in which they began to."""
    rows: dict[str, list[Entry]] = {}
    for entry in read_ledger(path):
        rows.setdefault(entry.job, []).append(entry)
    return {job: sums(found) for job, found in rows.items()}


def _rows(path: Path) -> Iterator[Any]:
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as f:
        for line in f:
            with contextlib.suppress(ValueError):
                yield json.loads(line)


def _open(path: Path) -> int:
    """For appending, at the beginning of a line."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    size = os.fstat(handle).st_size
    if size and os.pread(handle, 1, size - 1) != b"\n":
        os.write(handle, b"\n")
    return handle


def _append(handle: int, entry: Entry) -> None:
    """One write; what is torn by a full disk is taken back. Raises OSError.

    Under the file's lock: the proxy and the run's agents book in the same file, and nobody may take back another's line.
    """
    data = entry.model_dump_json().encode() + b"\n"
    with contextlib.suppress(OSError):  # a disk without locks
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
