"""Files of jobs for nodes that share none with this machine: sent to them and brought back through TUNELOOP_STORAGE.

Below `nodes/` of the storage lie `objects/<sha256>`, what jobs read, each sent once, and `jobs/<name>-<token>/` for each attempt:

    job.json          last of this side: the command, and path → size and SHA-256 of what it needs
    stop              the grace of one that shall end
    now/claim         made once, by whoever may act on the attempt; it stays, for a runner may begin late
    now/alive         of the node: its sign of life
    now/log.txt
    now/outputs.json  what the job has written so far, oldest first; its contents in objects/
    now/exit.json     last of the node

What lies below FT_FILE_PATH travels, and has the same path on the node. tuneloop, its Python and the engines do not.

Not covered: a storage that takes back what it has confirmed.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import digest, read_model, read_text, write_atomic
from tuneloop.core.job import ALIVE, ATTEMPT, CLAIM, Command, Exit, Sandbox
from tuneloop.core.layout import Home
from tuneloop.core.locks import exclusive
from tuneloop.core.run_spec import ExecutorKind
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.choose import open_executor
from tuneloop.sandboxes.cluster import ClusterSandbox, job_name
from tuneloop.sandboxes.slurm import node_count
from tuneloop.tools.hub.download import AT_ONCE, download_files
from tuneloop.tools.hub.http import HubBusyError, with_retries
from tuneloop.tools.hub.listing import HubListing, HubRequest, RemoteFile
from tuneloop.tools.hub.object_storage import ObjectHub, Storage
from tuneloop.tools.hub.stored_files import Sender, StoredFile, key_of, stored_file

M = TypeVar("M", bound=BaseModel)
RUNNER = "tuneloop.tools.jobs.staged_job"
BROUGHT, PART = "outputs.json", ".incoming"  # in a job's folder
LARGEST = 1 << 28  # bytes of a list of files
SLOW = 10e6  # bytes a second with which a node is expected to fetch, and to send as much again
LOOK = 2.0  # seconds between two looks at what the node has sent
PATIENCE = 300.0  # seconds without an answer of the storage, after which a run pauses


class StagedJob(BaseModel):
    """`job.json`. Paths are absolute; `folders` are made, also empty. A node with another version may not guess."""

    model_config = ConfigDict(extra="forbid")

    command: Command
    files: dict[str, StoredFile]
    folders: tuple[str, ...]


class Outputs(BaseModel):
    """`outputs.json`: what lies in a job's writable folders, in the order in which it was written."""

    files: dict[str, StoredFile]


def open_nodes(executor: ExecutorKind, sandbox: Sandbox, settings: Settings) -> Sandbox:
    """As `open_executor`, with the way that files come to nodes. Raises InvalidRequestError."""
    found = open_executor(executor, sandbox, settings)
    if isinstance(found, ClusterSandbox) and settings.node_files == "storage":
        url = settings.storage or ""
        if not url or url.startswith("file:"):
            said = f"TUNELOOP_STORAGE={url} lies on this machine" if url else "TUNELOOP_STORAGE names none"
            raise InvalidRequestError(
                f"TUNELOOP_NODE_FILES=storage: {said}; right is TUNELOOP_STORAGE=s3://bucket/path"
            )
        if executor == "slurm" and settings.slurm_container:
            raise InvalidRequestError(
                "TUNELOOP_NODE_FILES=storage: jobs do not start in TUNELOOP_SLURM_CONTAINER then; leave one of them out"
            )
        if executor == "slurm" and (nodes := node_count(settings.slurm_options)) > 1:
            raise InvalidRequestError(
                f"TUNELOOP_NODE_FILES=storage: a training on --nodes={nodes} needs files that they share; leave one of them out"
            )
        found.files = StorageFiles(url, settings.home)
    return found


def job_storage(url: str, attempt: str) -> Storage:
    """Where an attempt lies."""
    return Storage(f"{url}/nodes/jobs/{attempt}")


def input_storage(url: str) -> Storage:
    """Where lies what jobs read."""
    return Storage(f"{url}/nodes")


def fetch(
    storage: Storage, files: dict[str, StoredFile], part: Path, say: Callable[[int, int], None] = lambda *_: None
) -> None:
    """Fetch contents into `part`, under the given names, each checked; `say(done, total)` in megabytes.

    Raises InvalidRequestError, InfrastructureError, OSError.
    """
    if not files:
        return
    rows = tuple(RemoteFile(path=name, size=file.size, sha256=file.sha256) for name, file in files.items())
    commit = digest(*map(str, rows))  # what another list has left in `part` is not believed
    hub = ObjectHub(storage, lambda _: HubListing(commit=commit, files=rows), key_of)
    download_files(hub, HubRequest(f"files at {storage.url}", "run", commit), part, say)


def is_below(path: str, folders: tuple[str, ...]) -> bool:
    """Whether a name of a stranger is that of a file in one of the folders."""
    plain = os.path.isabs(path) and os.path.normpath(path) == path and "\\" not in path and "\0" not in path  # noqa: PTH117
    return plain and any(path.startswith(f"{folder.rstrip('/')}/") for folder in folders)


def plain_files(path: Path, within: tuple[Path, ...]) -> Iterator[Path]:
    """Files at or below a path; of links those that lead to a file within these folders."""
    found = [path] if path.is_file() else (Path(here) / name for here, _, names in os.walk(path) for name in names)
    for file in found:
        if file.is_file() and (not file.is_symlink() or any(file.resolve().is_relative_to(one) for one in within)):
            yield file


def needed_files(command: Command, home: Home) -> tuple[list[Path], list[str]]:
    """Files and folders below FT_FILE_PATH that a job reads or finds in its own folders, engines aside."""
    root, engines = home.root.absolute(), home.engines.absolute()
    listed = [Path(path) for path in dict.fromkeys((*command.read, *command.write, command.cwd))]
    listed = [path for path in listed if path.is_relative_to(root) and not path.is_relative_to(engines)]
    within = tuple(path.resolve() for path in listed)
    files = {file for path in listed for file in plain_files(path, within)}
    folders = {here for path in listed if path.is_dir() for here, _, _ in os.walk(path)}
    return sorted(files), sorted(folders)


class Task(threading.Thread):
    """Work in the background, and why it failed."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.work, self.error = work, ""
        self.start()

    def run(self) -> None:
        """Keeps what went wrong: nothing that failed passes for done."""
        try:
            self.work()
        except Exception as e:  # noqa: BLE001 - as above
            self.error = str(e) or type(e).__name__


class Incoming:
    """What the node of one attempt sends, in this process: signs are looked for often, files come when they have changed."""

    def __init__(self, url: str, folder: Path, home: Home) -> None:
        self.folder, self.home = folder, home
        self.storage = job_storage(url, read_text(folder / ATTEMPT))
        self.command = read_model(folder / "command.json", Command)
        self.marks: dict[str, str] = {}
        self.brought: tuple[str | None, ...] = (None, None)
        self.looking: Task | None = None
        self.bringing: Task | None = None
        self.next_look, self.began, self.heard, self.problem = 0.0, 0.0, time.monotonic(), ""

    def advance(self) -> bool:
        """Start what is due; True while more may come. Raises InfrastructureError where it cannot be brought."""
        now = time.monotonic()
        if self.bringing and not self.bringing.is_alive():
            done, self.bringing = self.bringing, None
            if done.error:
                self.brought = (None, None)  # it is tried again
            if done.error and now - self.heard < 5 * LOOK:  # else the storage does not answer now
                raise InfrastructureError(f"{self.folder.name}: {done.error}; then `tuneloop resume`")
        if self.looking is None or (not self.looking.is_alive() and now >= self.next_look):
            self.problem = self.looking.error if self.looking else ""
            self.heard = self.heard if self.problem or not self.looking else max(self.heard, self.began)
            self.began, self.next_look, self.looking = now, now + LOOK, Task(self.look)
        if now - self.heard > PATIENCE:
            problem = self.problem or self.looking.error or self.storage.url
            raise InfrastructureError(f"{problem}, then `tuneloop resume`")
        there = (self.marks.get("outputs.json"), self.marks.get("exit.json"))
        if self.bringing is None and there != self.brought:
            self.brought, self.bringing = there, Task(self.bring)
        return self.bringing is not None or not self.marks or now - self.heard > 5 * LOOK

    def look(self) -> None:
        """Small things: whose the attempt is, its sign of life, its log."""
        rows = Storage(f"{self.storage.url}/now").listing()
        for name in (CLAIM, ALIVE, "log.txt"):
            row = next((row for row in rows if row.path == name), None)
            if row and self.marks.get(name) != row.revision:
                self.bring_small(name)
        self.marks = {row.path: row.revision for row in rows}

    def bring_small(self, name: str) -> None:
        """A file of the job's folder as the node has it; of a claim its first line, the rest tells claimants apart."""
        data = self.storage.read_whole(f"now/{name}", 2 * self.command.limits.log + (1 << 20))
        if data is not None:
            write_atomic(self.folder / name, data.partition(b"\n")[0] if name == CLAIM else data)

    def bring(self) -> None:
        """What the job has written; where it is over, its end last."""
        with exclusive(self.folder / f"{PART}.lock"):  # another process may ask for it too
            if (self.folder / "exit.json").exists():
                return
            end = with_retries(
                lambda: self.storage.read_whole("now/exit.json", 1 << 16)
            )  # first: the outputs are the last then
            self.bring_outputs()
            if end is not None:
                with_retries(lambda: self.bring_small("log.txt"))
                write_atomic(self.folder / "exit.json", parse(Exit, end, self.storage).model_dump_json(), keep=True)
                INCOMING.pop(self.folder, None)
                forget(self.storage)

    def bring_outputs(self) -> None:
        """Each file checked before it gets its name; what the job has removed goes here too."""
        data = with_retries(lambda: self.storage.read_whole("now/outputs.json", LARGEST))
        if data is None:
            return
        wanted = parse(Outputs, data, self.storage).files
        for path in wanted:
            if not is_below(path, self.command.write):
                raise InfrastructureError(
                    f"{self.storage.url} has a file that lies in no folder of its job: {path[:80]!r}"
                )
        new = {path: file for path, file in wanted.items() if not self.holds(Path(path), file)}
        part = self.folder / PART
        fetch(self.storage, {path.lstrip("/"): file for path, file in new.items()}, part)
        for path in (
            read_model(self.folder / BROUGHT, Outputs).files.keys() - wanted.keys()
        ):  # a folder may have its name now
            with contextlib.suppress(NotADirectoryError):
                Path(path).unlink(missing_ok=True)
        for path in new:
            place = Path(path)
            if not any(place.parent.resolve().is_relative_to(Path(one).resolve()) for one in self.command.write):
                raise InfrastructureError(f"{place} leads out of the folders of its job")
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.is_dir() and not place.is_symlink():  # an empty one: what it held is gone
                place.rmdir()
            (part / path.lstrip("/")).replace(place)
        shutil.rmtree(part, ignore_errors=True)
        write_atomic(self.folder / BROUGHT, data)

    def holds(self, place: Path, file: StoredFile) -> bool:
        """Whether the file is here."""
        there = place.is_file() and not place.is_symlink() and place.stat().st_size == file.size
        return there and stored_file(place, self.home.cache / "digests") == file


def parse(kind: type[M], data: bytes, storage: Storage) -> M:
    """What a node wrote. Raises InfrastructureError for anything else."""
    try:
        return kind.model_validate_json(data)
    except ValidationError as e:
        raise InfrastructureError(f"{storage.url} holds what no node of ours wrote: {e.errors()[0]['msg']}") from e


def forget(storage: Storage) -> None:
    """Remove an attempt, but for its claim."""
    storage.remove(["job.json"])
    storage.remove(row.path for row in storage.listing() if row.path != f"now/{CLAIM}")


INCOMING: dict[Path, Incoming] = {}


class StorageFiles:
    """`NodeFiles` by object storage."""

    def __init__(self, url: str, home: Home) -> None:
        self.url, self.home = url, home

    def check(self) -> None:
        """Write, read and remove a small object. Raises InvalidRequestError."""
        try:
            input_storage(self.url).try_out(conditional=True)
        except HubBusyError as e:
            raise InvalidRequestError(f"TUNELOOP_NODE_FILES=storage: {e}") from e

    def send(self, folder: Path, command: Command) -> float:
        """Contents first, then `job.json`. Raises InfrastructureError."""
        if not folder.is_relative_to(self.home.root.absolute()):
            raise InfrastructureError(f"{folder} does not lie below FT_FILE_PATH, and nodes share no files")
        if not (folder / ATTEMPT).exists():
            write_atomic(folder / ATTEMPT, f"{job_name(folder)}-{secrets.token_hex(8)}")
        try:
            return with_retries(lambda: self._send(folder, command))
        except (InvalidRequestError, OSError) as e:
            raise InfrastructureError(f"{folder.name} cannot be sent to nodes: {e}") from e

    def _send(self, folder: Path, command: Command) -> float:
        paths, folders = needed_files(command, self.home)
        sender = Sender(input_storage(self.url))

        def one(path: Path) -> StoredFile:
            made = stored_file(path, self.home.cache / "digests")
            sender.send(path.resolve(), made)
            return made

        with ThreadPoolExecutor(AT_ONCE) as pool:
            files = {str(path): made for path, made in zip(paths, pool.map(one, paths), strict=True)}
        own = {path: file for path, file in files.items() if is_below(path, command.write)}
        write_atomic(folder / BROUGHT, Outputs(files=own).model_dump_json())
        attempt = Sender(self.storage(folder))
        attempt.put("now/sent", b"-")
        job = StagedJob(command=command, files=files, folders=tuple(folders))
        attempt.put("job.json", json.dumps(job.model_dump(mode="json")).encode())
        return 2 * sum({file.sha256: file.size for file in files.values()}.values()) / SLOW

    def storage(self, folder: Path) -> Storage:
        """Where the attempt lies."""
        return job_storage(self.url, read_text(folder / ATTEMPT))

    def words(self, folder: Path) -> tuple[str, ...]:
        """The runner, with no secret: a node has its own credentials."""
        return ("-m", RUNNER, self.url, read_text(folder / ATTEMPT), str(self.home.root.absolute()), str(folder))

    def claim(self, folder: Path, who: str) -> bool:
        """By a conditional write. Raises InfrastructureError."""
        mine = f"{who}\n{secrets.token_hex(8)}"
        try:
            won = with_retries(lambda: self.storage(folder).create(f"now/{CLAIM}", mine.encode()))
        except InvalidRequestError as e:
            raise InfrastructureError(str(e)) from e
        if won:
            write_atomic(folder / CLAIM, who)
        return won

    def bring(self, folder: Path) -> bool:
        """As `NodeFiles` has it; nothing is waited for."""
        if folder not in INCOMING:
            INCOMING[folder] = Incoming(self.url, folder, self.home)
        return INCOMING[folder].advance()

    def stop(self, folder: Path, grace: float) -> None:
        """The node looks for it with each sign of life."""
        try:
            with_retries(lambda: Sender(self.storage(folder)).put("stop", str(grace).encode()))
        except InvalidRequestError as e:
            raise InfrastructureError(str(e)) from e

    def forget(self, folder: Path) -> None:
        """Remove what can be removed."""
        INCOMING.pop(folder, None)
        Task(lambda: forget(self.storage(folder)))
