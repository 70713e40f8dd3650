"""On a node that shares no files with tuneloop's machine: fetches one job, runs it in its sandbox, sends what it writes.

Started by a scheduler as `-m tuneloop.tools.jobs.staged_job URL ATTEMPT FT_FILE_PATH FOLDER KIND MEMORY`, with the node's own
credentials for the storage, of which the job sees nothing. `node_files.py` says what lies in the storage.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import secrets
import shutil
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

from tuneloop.core.errors import DamagedFileError, InfrastructureError, InvalidRequestError
from tuneloop.core.files import read_bytes, write_atomic
from tuneloop.core.job import ALIVE, CLAIM, Command, Exit
from tuneloop.sandboxes import node_runner
from tuneloop.sandboxes.cluster import NO_STORAGE, OTHER_VERSION
from tuneloop.sandboxes.local import LocalSandbox
from tuneloop.tools.hub.http import HubBusyError, with_retries
from tuneloop.tools.hub.object_storage import Storage
from tuneloop.tools.hub.stored_files import Sender, StoredFile, key_of, stored_file
from tuneloop.tools.jobs.node_files import (
    LARGEST,
    PART,
    StagedJob,
    fetch,
    input_storage,
    is_below,
    job_storage,
    parse,
    plain_files,
)
from tuneloop.tools.weights.fingerprints import SETTLED

MARK, OBJECTS = ".tuneloop-node", ".node-objects"  # below FT_FILE_PATH of a node
SMALL = 16 << 20  # bytes of a file that is sent as it is; a larger one when it has been still for a moment
SEND = 10.0  # seconds between two looks at what the job has written


class Runner:
    """One attempt on this node; `job` is what it is asked for."""

    def __init__(self, url: str, storage: Storage, job: StagedJob, root: Path, folder: Path) -> None:
        self.inputs, self.storage, self.job = input_storage(url), storage, job
        self.root, self.folder = root, folder
        self.sender = Sender(storage)
        self.sent = {path: file for path, file in job.files.items() if is_below(path, job.command.write)}
        self.log_size, self.grace, self.stopping = 0, "", False
        self.over, self.ended = threading.Event(), threading.Event()
        self.sending = threading.Thread(target=self.send_often, daemon=True)
        self.beats = itertools.count()

    def begin(self) -> None:
        """Give signs of life from now on. Raises OSError where the first one does not come through."""
        self.sign()
        self.watchdog = node_runner.Watchdog(self.sign)
        threading.Thread(target=self.give_signs, daemon=True).start()

    def sign(self) -> None:
        """Give a sign of life, and look whether the job shall end. Raises OSError where the storage does not take it."""
        try:
            self.sender.put(f"now/{ALIVE}", str(next(self.beats)).encode())
            self.grace = self.grace or (self.storage.read_whole("stop", 64) or b"").decode()
        except (InvalidRequestError, HubBusyError) as e:
            raise OSError(str(e)) from e

    def give_signs(self) -> None:
        """Until it is over."""
        while not self.over.wait(1.0):
            self.watchdog.beat()

    def send_often(self) -> None:
        """Until the job is over; a failure is followed by the next try."""
        while not self.ended.wait(SEND):
            with contextlib.suppress(InvalidRequestError, HubBusyError, OSError):
                self.send(final=False)

    def look_for_stop(self, sandbox: LocalSandbox) -> None:
        """What the job's loop calls."""
        if self.grace and not self.stopping:
            self.stopping = True
            sandbox.stop(self.folder, float(self.grace))

    def lay_out(self) -> None:
        """Every file where the job expects it. Raises InvalidRequestError, InfrastructureError, OSError."""
        for path in (*self.job.files, *self.job.folders, str(self.folder)):
            if not is_below(path, (str(self.root),)):
                raise InvalidRequestError(f"{path[:80]!r} does not lie below {self.root}")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, mode=0o700)
        self.fetch_objects()
        own = tuple(path for path in self.job.command.write if is_below(path, (str(self.root),)))
        for path in own:
            shutil.rmtree(path, ignore_errors=True)
        for path in self.job.folders:
            Path(path).mkdir(parents=True, exist_ok=True)
        for path, file in self.job.files.items():
            self.place(Path(path), file, copy=is_below(path, own))
        for path in self.job.folders:  # of an earlier attempt, or of another run of this name
            for there in Path(path).iterdir():
                if str(there) not in self.job.files and not there.is_dir():
                    there.unlink()
        write_atomic(self.folder / "command.json", self.job.command.model_dump_json(indent=1))

    def fetch_objects(self) -> None:
        """What this node does not have yet."""
        cache, part = self.root / OBJECTS, self.folder / PART
        cache.mkdir(exist_ok=True)
        missing = {f.sha256: f for f in self.job.files.values() if not (cache / f.sha256).exists()}
        fetch(self.inputs, missing, part, self.raise_if_stopped)
        for file in part.iterdir() if part.exists() else ():
            file.replace(cache / file.name)
        shutil.rmtree(part, ignore_errors=True)

    def raise_if_stopped(self, done: int, total: int) -> None:
        """Raises InfrastructureError."""
        if self.grace:
            raise InfrastructureError(f"stopped when {done} of {total} MB were fetched")

    def place(self, path: Path, file: StoredFile, *, copy: bool) -> None:
        """A file for the job: one that it may change is its own, others are links to what this node keeps."""
        kept = self.root / OBJECTS / file.sha256
        path.parent.mkdir(parents=True, exist_ok=True)
        if copy:
            shutil.copyfile(kept, path)
        elif not (path.exists() and path.samefile(kept)):
            path.unlink(missing_ok=True)
            with contextlib.suppress(FileExistsError):  # another job of this node was faster
                path.hardlink_to(kept)

    def send(self, *, final: bool) -> None:
        """Log and outputs as they are now; contents before the list. Raises InvalidRequestError, HubBusyError, OSError."""
        log = self.folder / "log.txt"
        if log.is_file() and log.stat().st_size != self.log_size:
            data = log.read_bytes()
            self.sender.put("now/log.txt", data)
            self.log_size = len(data)
        found = self.send_outputs(final=final)
        if found != self.sent:
            rows = {path: stored.model_dump() for path, stored in found.items()}
            self.sender.put("now/outputs.json", json.dumps({"files": rows}).encode())
            self.sent = found

    def send_outputs(self, *, final: bool) -> dict[str, StoredFile]:
        """Send what the job has written, oldest first; a file that changes meanwhile stays as it was, unless this is `final`."""
        found = {}
        for written, path in self.written():
            before = self.sent.get(str(path))
            try:
                found[str(path)] = self.send_file(path, final or time.time() - written > SETTLED)
            except FileNotFoundError:
                continue
            except (HubBusyError, DamagedFileError) as e:
                if final and isinstance(e, HubBusyError):
                    raise
                found |= {str(path): before} if before else {}
        return found

    def written(self) -> list[tuple[float, Path]]:
        """Files in the job's folders with the time of their last change, oldest first."""
        rows = []
        for folder in self.job.command.write:
            for path in plain_files(Path(folder), ()):
                with contextlib.suppress(FileNotFoundError):
                    rows.append((path.stat().st_mtime, path))
        return sorted(rows)

    def send_file(self, path: Path, settled: bool) -> StoredFile:
        """A small file as it is now, for some change all the time. Raises HubBusyError for a large one that changes."""
        before = self.sent.get(str(path))
        if path.stat().st_size > SMALL:
            if not settled:
                raise HubBusyError(f"{path} is being written")
            stored = stored_file(path, self.root / "cache" / "digests")
            if stored != before:
                self.sender.send(path, stored)
            return stored
        data = read_bytes(path, 2 * SMALL, follow=False)  # the job may have put a link or a pipe there since
        stored = StoredFile(size=len(data), sha256=hashlib.sha256(data).hexdigest())
        if stored != before:
            self.sender.put(key_of(stored), data)
        return stored

    def finish(self) -> None:
        """Everything that is left, and last the end."""
        self.ended.set()
        self.sending.join()
        with_retries(lambda: self.send(final=True))
        end = self.folder / "exit.json"
        if end.exists():
            with_retries(lambda: self.sender.put("now/exit.json", end.read_bytes()))
        self.over.set()


def open_root(root: Path) -> None:
    """Make FT_FILE_PATH on this node. Raises InvalidRequestError where somebody else's folder is there, or none can be made."""
    try:
        if not (root / MARK).exists():
            if root.exists() and any(root.iterdir()):
                raise InvalidRequestError(
                    f"{root} is there and was not made by a job: where nodes share it, right is TUNELOOP_NODE_FILES=shared, "
                    "else an FT_FILE_PATH that nodes do not have"
                )
            root.mkdir(parents=True, exist_ok=True)
            (root / MARK).touch()
    except OSError as e:
        raise InvalidRequestError(
            f"{root} cannot be made ({e.strerror}): right is an FT_FILE_PATH that nodes can make on a disk of their own"
        ) from e


class OtherVersionError(InfrastructureError):
    """What is asked cannot be read."""


def read_job(storage: Storage) -> StagedJob | None:
    """What is asked; None where nobody asks for it any more. Raises InvalidRequestError, InfrastructureError."""
    data = with_retries(lambda: storage.read_whole("job.json", LARGEST))
    try:
        return None if data is None else parse(StagedJob, data, storage)
    except InfrastructureError as e:
        raise OtherVersionError(f"{e}: right is the same version of tuneloop on all machines") from e


def claimed(storage: Storage, command: Command) -> bool:
    """Whether the attempt is ours. Raises InvalidRequestError, InfrastructureError."""
    mine = f"{node_runner.claimant(command)}\n{secrets.token_hex(8)}".encode()
    return with_retries(lambda: storage.create(f"now/{CLAIM}", mine))


def main(url: str, attempt: str, home: str, place: str, kind: str, memory: str = "") -> None:
    """Run the job to its end; exit status 0 when that is sent or the job is another one's, else as `NODE_SAYS` tells."""
    root, folder, storage = Path(home), Path(place), job_storage(url, attempt)
    try:
        job = read_job(storage)
        if job is None or not claimed(storage, job.command):
            return
        runner = Runner(url, storage, job, root, folder)
        runner.begin()
    except (InvalidRequestError, InfrastructureError, OSError) as e:
        sys.stderr.write(f"{os.uname().nodename}: {e}\n")
        sys.exit(OTHER_VERSION if isinstance(e, OtherVersionError) else NO_STORAGE)
    run(runner, kind, memory)


def run(runner: Runner, kind: str, memory: str) -> None:
    """A job that is claimed. What cannot be sent ends the runner: its job is lost, and the next attempt goes on."""
    folder = runner.folder
    try:
        open_root(runner.root)
        runner.lay_out()
    except (InvalidRequestError, InfrastructureError, OSError) as e:
        refuse(runner, e)
        return
    runner.sending.start()
    node_runner.run_job(folder, runner.job.command, kind, memory, runner.look_for_stop)
    runner.finish()


def refuse(runner: Runner, error: Exception) -> None:
    """The job did not begin, and its log says why."""
    if runner.grace:
        end = Exit(code=-signal.SIGTERM, reason="stopped", seconds=0.0)
    else:
        end = Exit(code=127, reason="failed_to_start", seconds=0.0)
    for name, text in (("log.txt", f"{os.uname().nodename}: {error}\n"), ("exit.json", end.model_dump_json())):
        with_retries(partial(runner.sender.put, f"now/{name}", text.encode()))


if __name__ == "__main__":
    main(*sys.argv[1:])
