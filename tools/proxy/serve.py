"""The proxy's process: one per run, detached, started by `doors.py` through `sandboxes/detached.py`.

It is told endpoints and keys on its standard input and writes them nowhere. In its folder each job has a folder with
`door.json` (what the job may do) and `in/socket`, which is all that the job's sandbox sees. It ends by itself when no
job needs it. Its memory cannot be read by others, and it leaves no core.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import socket
import sys
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from tuneloop.core.locks import is_locked, take
from tuneloop.core.settings import Allowance
from tuneloop.sandboxes.jobs import newest
from tuneloop.tools.disk import remove
from tuneloop.tools.proxy.access import Access, Upstream
from tuneloop.tools.proxy.account import Account, Amount, amount
from tuneloop.tools.proxy.answers import Answers
from tuneloop.tools.proxy.door import Door
from tuneloop.tools.proxy.ledger import Ledger, read_ledger
from tuneloop.tools.proxy.upstream import Provider
from tuneloop.tools.proxy.wire import HEAD_BYTES, Wire

SET_DUMPABLE = 4
DOORS = "[!.]*/door.json"
TICK, LOOK = 0.1, 1.0  # seconds between looks for new doors, for jobs that are over
GRACE = 10.0  # seconds from a job's end to the proxy's
IDLE = 3600.0  # seconds without a request after which a job whose end nobody told is taken for gone
TROUBLES = 100  # lines of the log


class Told(BaseModel):
    """What the process learns on its standard input."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    upstreams: dict[str, Upstream]
    ledger: Path
    answers: Path


class Plate(BaseModel):
    """`door.json`: whose door it is and what he may do. The token opens this door and nothing else."""

    model_config = ConfigDict(frozen=True)

    token: str
    jobs: Path
    name: str
    access: Access


class Proxy:
    """All doors of a run."""

    def __init__(self, folder: Path, told: Told) -> None:
        self._folder, self._told = folder, told
        self._ledger = Ledger(told.ledger, folder / "begun.jsonl")
        self._answers = Answers(told.answers)
        self._run = Account("this run", Allowance())
        self._count()
        self._providers: dict[str, Provider] = {}
        self._doors: dict[str, Door] = {}
        self._plates: dict[str, tuple[int, Plate]] = {}
        self._troubles = 0

    async def run(self) -> None:
        """Serve until nobody needs it."""
        asyncio.get_running_loop().set_exception_handler(self._trouble)
        looked = time.monotonic()
        while True:
            try:
                await self._refresh()
                if time.monotonic() - looked > LOOK:
                    if self._may_end():
                        return self._take_doors_away()
                    looked = time.monotonic()
            except OSError as e:  # a job may have taken all descriptors; those that wait are not left alone for that
                self._trouble(asyncio.get_running_loop(), {"exception": e})
            await asyncio.sleep(TICK)

    def _count(self) -> None:
        """What the run has spent by the ledger, in which its agents book as well; nothing is forgotten."""
        booked = sum((amount(entry) for entry in read_ledger(self._told.ledger)), start=Amount())
        self._run.spent = booked.most(self._run.spent)

    async def _refresh(self) -> None:
        """Open the doors that were added or changed."""
        for path in self._folder.glob(DOORS):
            stamp = path.stat().st_mtime_ns
            name = path.parent.name
            if name in self._plates and self._plates[name][0] == stamp:
                continue
            plate = Plate.model_validate_json(path.read_bytes())
            known = self._plates.get(name)
            self._run.allowance = plate.access.run
            self._count()
            if known is None or known[1] != plate:
                self._doors[name] = Door(name, plate.token, plate.access, self._run, self._ledger)
            if known is None:
                await self._listen(name, path.parent / "in")
            self._plates[name] = (stamp, plate)

    async def _listen(self, name: str, place: Path) -> None:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            door = self._doors[name]
            await door.serve(Wire(reader, writer), self._provider(door.access.purpose), self._answers)

        await asyncio.start_unix_server(connected, sock=listening(place), limit=HEAD_BYTES)

    def _provider(self, purpose: str) -> Provider:
        if purpose not in self._providers:
            self._providers[purpose] = Provider(self._told.upstreams[purpose])
        return self._providers[purpose]

    def _may_end(self) -> bool:
        """Whether every job is over; then nobody can open a door before we are gone."""
        if not self._folder.is_dir():
            return True
        if not self._all_over():
            return False
        handle = os.open(self._folder / "start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if take(handle) and self._all_over():
            return True
        os.close(handle)
        return False

    def _all_over(self) -> bool:
        idle = not any(door.busy for door in self._doors.values())
        return idle and all(over(path, self._last(path)) for path in self._folder.glob(DOORS))

    def _last(self, path: Path) -> float:
        door = self._doors.get(path.parent.name)
        return door.last if door else time.time()

    def _trouble(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A line in the log without what was said: an error of ours is no reason to end."""
        self._troubles += 1
        found = context.get("exception")
        if self._troubles <= TROUBLES:
            where = found.__traceback__ if found else None
            while where and where.tb_next:
                where = where.tb_next
            line = f" at {Path(where.tb_frame.f_code.co_filename).name}:{where.tb_lineno}" if where else ""
            sys.stderr.write(f"{type(found).__name__ if found else context.get('message')}{line}\n")

    def _take_doors_away(self) -> None:
        """Nobody needs them; after a mistake of ours they stay, and who watches the jobs starts another proxy."""
        for path in self._folder.glob(DOORS):
            remove(path.parent)

    async def close(self) -> None:
        """What was booked is whole."""
        for provider in self._providers.values():
            await provider.close()
        self._ledger.close()


def listening(place: Path) -> socket.socket:
    """A socket in `place`, however long its path; it has its name when it answers, and any uid that sees it may ask."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        part = place / ".socket"
        part.unlink(missing_ok=True)
        door.bind(f"/proc/self/fd/{folder}/.socket")
        part.chmod(0o666)
        door.listen(1024)
        door.setblocking(False)
        part.replace(place / "socket")
    finally:
        os.close(folder)
    return door


def over(path: Path, last: float) -> bool:
    """Whether the job behind a door has ended a while ago, or was never heard of again; one that lives may be silent."""
    plate = Plate.model_validate_json(path.read_bytes())
    job = newest(plate.jobs, plate.name)
    opened, now = path.stat().st_mtime, time.time()
    if job is not None and (job / "exit.json").exists():
        return now - max(opened, (job / "exit.json").stat().st_mtime) > GRACE
    return now - max(opened, last) > IDLE and not (job is not None and is_locked(job / "lock"))


async def serve(folder: Path, told: Told) -> None:
    """Until nobody needs it."""
    proxy = Proxy(folder, told)
    try:
        await proxy.run()
    finally:
        await proxy.close()


def main(folder: str, lock: str) -> None:  # noqa: ARG001 - whose descriptor is held open until the end
    """Read what is told, detach, serve."""
    ctypes.CDLL(None).prctl(SET_DUMPABLE, 0, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192) if hard > 0 else 8192, hard))
    told = Told.model_validate_json(sys.stdin.buffer.read())
    if os.fork():
        os._exit(0)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    asyncio.run(serve(Path(folder), told))
