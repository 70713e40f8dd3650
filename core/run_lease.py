"""One orchestrator per run over all machines of a shared file system: numbered leases, of which the largest counts.

`runs/<id>/lease/<number>.json` is made exclusively, by a link; its holder touches it every few seconds and renames it to
`<number>.released` in the end. Machines' clocks are never compared: a holder is gone when its lease was not seen to change
for `LOST` seconds of one's own clock. A holder that was silent for `FENCE` seconds takes the next number before it writes again,
and finds it taken if another one went on. Within one machine `flock` tells at once that a holder is dead.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from tuneloop.core.async_bridge import pause
from tuneloop.core.errors import DamagedFileError, FencedError, InfrastructureError, InvalidRequestError
from tuneloop.core.file_systems import is_local, refuses_locks
from tuneloop.core.files import GUARDS, digest, open_plain, read_model
from tuneloop.core.frozen import Frozen
from tuneloop.core.locks import is_locked
from tuneloop.core.state_folder import machine_name

FOLDER = "lease"
BEAT, FENCE, LOST = 5.0, 30.0, 60.0  # seconds between signs of life; until a holder stops; until another one takes over
NAME = re.compile(r"(\d{1,15})\.(json|released)")
LARGEST = 1 << 12


class Holder(Frozen):
    """Who holds a lease, and since when."""

    host: str
    machine: str
    installed: str = ""
    pid: int
    since: datetime
    token: str = ""

    def __str__(self) -> str:
        return f"{self.host} since {self.since:%Y-%m-%d %H:%M:%S} UTC"


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def installation() -> str:
    """Of host and machine-id, the same before and after a restart of this machine; "" where there is no machine-id."""
    with contextlib.suppress(OSError):
        if name := Path("/etc/machine-id").read_text().strip():
            return digest(socket.gethostname(), name)  # the id itself is confidential
    return ""


def was_restarted(run: Path, holder: Holder) -> bool:
    """Whether a holder is gone because this machine was restarted, and no other one can have the run's local file system."""
    another_boot = holder.machine != machine_of(run)
    here = another_boot and holder.installed != "" and holder.installed == installation() and is_local(run)
    file = newest(run / FOLDER)[1]
    return here and file is not None and age(file) > FENCE  # a clone of this machine may reach an exported folder


def machine_of(folder: Path) -> str:
    """Processes with the same name see each other's locks below `folder`: one kernel, and where it matters one state folder."""
    return f"{_boot()} {machine_name()}" if refuses_locks(folder) else _boot()


def newest(folder: Path) -> tuple[int, Path | None]:
    """The largest number, and its file; 0, None without any."""
    try:
        found = [(int(m[1]), m[2] == "released", m[0]) for name in os.listdir(folder) if (m := NAME.fullmatch(name))]  # noqa: PTH208
    except FileNotFoundError:
        found = []
    number, _, name = max(found, default=(0, False, ""))
    return number, folder / name if name else None


def read_holder(file: Path) -> Holder:
    """What a lease says; of one that cannot be read, that somebody holds it."""
    try:
        return read_model(file, Holder, LARGEST)
    except (OSError, InvalidRequestError):
        return Holder(host="another machine", machine="", pid=0, since=datetime.fromtimestamp(0, UTC))


def find_holder(run: Path, *, elsewhere: bool = False) -> Holder | None:
    """Who works on the run of that folder, or does so `elsewhere`; None: nobody, as far as can be told at once.

    How old another machine's last sign of life is, the file server's clock says.
    """
    file = newest(run / FOLDER)[1]
    if file is None or file.suffix == ".released":
        return None
    holder = read_holder(file)
    if holder.machine == machine_of(run):
        with contextlib.suppress(PermissionError):  # another user's: its signs of life tell
            return holder if not elsewhere and is_locked(run / "lock") else None
    if was_restarted(run, holder):
        return None
    return holder if age(file) < LOST else None


def is_worked_on(run: Path) -> bool:
    """Whether a process of this machine, or one of another machine, works on the run of that folder."""
    with contextlib.suppress(PermissionError):
        return is_locked(run / "lock") or find_holder(run, elsewhere=True) is not None
    return find_holder(run) is not None


def age(file: Path) -> float:
    """Seconds since a sign of life was given by touching the file, by its server's clock."""
    try:
        with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".part") as probe:
            now = os.fstat(probe.fileno()).st_mtime
    except OSError:  # one that may only read
        now = time.time()
    return now - (sign_of(file) or 0.0)


def sign_of(file: Path) -> float | None:
    """When the file changed last; it is opened, since a client of NFS may keep older times. None: it is gone."""
    try:
        with open_plain(file, follow=False) as f:
            return os.fstat(f.fileno()).st_mtime
    except PermissionError:  # another user's
        with contextlib.suppress(OSError):
            return file.lstat().st_mtime
        return None
    except (FileNotFoundError, DamagedFileError):
        return None


class RunLease:
    """A lease that is held, and renewed until it is released.

    `on_lost` is called once, from another thread, when the run is another one's or no sign of life could be given.
    """

    def __init__(self, run: Path, on_lost: Callable[[InfrastructureError], None] = lambda _: None) -> None:
        """Raises InvalidRequestError while another machine gives signs of life; that takes up to `LOST` seconds."""
        self.run, self.folder, self.on_lost = run, run / FOLDER, on_lost
        self.machine, self.lost, self.signed = machine_of(run), "", 0.0
        self.guard, self.over = threading.Lock(), threading.Event()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.number = await_free(run, self.machine)
        if not self._claim():
            raise InvalidRequestError(worked_on(run))
        GUARDS.update(dict.fromkeys((run, run.resolve()), self.check))
        self.thread = threading.Thread(target=self._beat, name="tuneloop-lease", daemon=True)
        self.thread.start()

    @property
    def file(self) -> Path:
        """The lease."""
        return self.folder / f"{self.number}.json"

    def check(self) -> None:
        """Give a sign of life. Raises FencedError when another one took the run over."""
        with self.guard:
            if not self.lost and not self._renew() and not self._claim():
                self.lost = worked_on(self.run)
            if self.lost:
                raise FencedError(self.lost)

    def release(self) -> None:
        """Let others go on at once."""
        self.over.set()
        self.thread.join()
        for folder in (self.run, self.run.resolve()):
            GUARDS.pop(folder, None)
        with self.guard, contextlib.suppress(OSError):
            if not self.lost and newest(self.folder)[0] == self.number:
                self.file.rename(self.file.with_suffix(".released"))

    def _renew(self) -> bool:
        """False: it was silent for too long, or the lease is gone."""
        began = time.clock_gettime(time.CLOCK_BOOTTIME)  # goes on while the machine sleeps
        if began - self.signed >= FENCE:
            return False
        try:
            os.utime(self.file)
        except FileNotFoundError:
            return False
        self.signed = began
        return newest(self.folder)[0] == self.number

    def _claim(self) -> bool:
        """Take the number after the last own one; False when another one has it, or a larger one."""
        began, number = time.clock_gettime(time.CLOCK_BOOTTIME), self.number + 1
        me = Holder(
            host=socket.gethostname(),
            machine=self.machine,
            installed=installation(),
            pid=os.getpid(),
            since=datetime.now(UTC),
            token=secrets.token_hex(8),
        )
        if not make_exclusively(self.folder / f"{number}.json", me):
            return False
        self.number, self.signed = number, began
        largest, file = newest(self.folder)
        if largest > number or file != self.file:  # a list of names may have been an old one
            self.file.unlink(missing_ok=True)
            return False
        for name in os.listdir(self.folder):  # noqa: PTH208
            if name.endswith(".part") or ((m := NAME.fullmatch(name)) and int(m[1]) < number):
                (self.folder / name).unlink(missing_ok=True)
        return True

    def _beat(self) -> None:
        while not self.over.wait(min(BEAT, FENCE / 2)):
            try:
                self.check()
            except FencedError as e:
                self.on_lost(e)
                return
            except OSError as e:  # the file server is away for a while
                if time.clock_gettime(time.CLOCK_BOOTTIME) - self.signed >= FENCE:
                    why = f"{self.folder}: no sign of life could be written for {FENCE:.0f} s ({e.strerror})"
                    self.on_lost(InfrastructureError(why))


def make_exclusively(file: Path, me: Holder) -> bool:
    """Whether the file is ours: made whole, by one link; an answer that a network lost does not count."""
    handle, part = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "w") as f:
            f.write(me.model_dump_json())
            f.flush()
            with contextlib.suppress(OSError):  # a file system without modes
                os.fchmod(f.fileno(), 0o644)  # other users of the home may see who works on a run
            os.fsync(f.fileno())
        try:
            file.hardlink_to(part)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            with contextlib.suppress(FileExistsError), file.open("x") as f:
                f.write(me.model_dump_json())
        return read_holder(file).token == me.token
    finally:
        Path(part).unlink(missing_ok=True)


def await_free(run: Path, machine: str) -> int:
    """The largest number, of whose holder nothing is left. Raises InvalidRequestError while it gives signs of life."""
    number, file = newest(run / FOLDER)
    if file is None or file.suffix == ".released":
        return number
    if (holder := read_holder(file)).machine == machine or was_restarted(run, holder):
        return number  # who comes here has the lock of this machine: no other process of it works on the run
    sys.stderr.write(
        f"tuneloop: run {run.name} was last worked on by {holder}; looking for a sign of life, {LOST:.0f} s\n"
    )
    sign, until = sign_of(file), time.monotonic() + LOST
    while time.monotonic() < until:
        pause(min(1.0, LOST / 10))
        now, there = newest(run / FOLDER)
        if there is not None and there.suffix == ".released":
            return now
        if now != number or sign_of(file) != sign:
            raise InvalidRequestError(worked_on(run))
    return number


def worked_on(run: Path) -> str:
    """The refusal, with who has it."""
    file = newest(run / FOLDER)[1]
    who = read_holder(file) if file is not None else "another process"
    return f"run {run.name} is worked on by {who}; wait, or stop it there: tuneloop stop {run.name}"
