"""A run in object storage: its files by their SHA-256 in `objects/`, and last `manifest.json`, which names them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ValidationError

import tuneloop
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import digest, digest_file, fsync_path, fsync_tree, json_text, read_bytes
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.locks import exclusive
from tuneloop.core.run_lease import is_worked_on
from tuneloop.tools.evaluation.test_access_log import Opening, note_openings, openings_of
from tuneloop.tools.housekeeping.disk import TRASH, is_trash
from tuneloop.tools.hub.download import AT_ONCE, download_files
from tuneloop.tools.hub.http import HubBusyError, RetryWaits, with_retries
from tuneloop.tools.hub.listing import HubListing, HubRequest, RemoteFile
from tuneloop.tools.hub.object_storage import ObjectHub, Storage
from tuneloop.tools.hub.stored_files import Sender, StoredFile, key_of, stored_file
from tuneloop.tools.runs.fork import read_fork
from tuneloop.tools.runs.journal import load_journal
from tuneloop.tools.runs.manifest import FORMAT, created_at, newer_version_error, older_version_error, read_spec
from tuneloop.tools.runs.signature import home_of

MANIFEST, REPORT = "manifest.json", "report.md"
LARGEST = 1 << 28  # bytes of a manifest
# Scratch, in which sealed items lie, and locks; what is made again from the rest, or is this machine's; who brings it back signs.
LEFT_ANYWHERE = frozenset({"work", "workers", "lock"})
LEFT_ON_TOP = frozenset({"stamps.json", "stores.json", "events.index.json", "datasets", "signature.json", "lease"})
OF_FINAL = frozenset({"candidates.json", "stop.json"})  # the rest of it holds items of the sealed test
Progress = Callable[[str, int, int], None]


class RunCopy(BaseModel):
    """`manifest.json`, written last: which run, how far it was, and its files. `openings`: of sealed tests, by its lineage."""

    run: str
    created: str
    version: str
    format: int
    experiments: int
    files: dict[str, StoredFile]
    openings: tuple[Opening, ...] = ()


def is_mirrored(name: str) -> bool:
    """Whether a file of a run is copied: nothing of the sealed test's items, no scratch, no lock, no checkpoint.

    Nor one whose name cannot be brought back everywhere.
    """
    path = PurePosixPath(name)
    if not path.parts or "\\" in name:
        return False
    top = path.parts[0]
    left = top in LEFT_ON_TOP or top.startswith(("datasets-", "checkpoint.sqlite"))
    inner = top != "final" or name in {f"final/{one}" for one in OF_FINAL}
    scratch = any(p in LEFT_ANYWHERE or p.endswith(".lock") or is_trash(Path(p)) for p in path.parts)
    return inner and not left and not scratch


def mirrored_files(run: RunFolder, *, at_work: bool) -> Iterator[tuple[str, Path]]:
    """Plain files to be copied; of an experiment that is not over none while the run is `at_work`, and no job nor half a model."""
    for folder, names, files in os.walk(run.root):
        here = Path(folder)
        names[:] = [name for name in names if not is_left(run, here / name, at_work=at_work)]
        for path in (here / name for name in sorted(files)):
            name = path.relative_to(run.root).as_posix()
            if is_mirrored(name) and not path.is_symlink() and path.is_file():
                yield name, path


def is_left(run: RunFolder, folder: Path, *, at_work: bool) -> bool:
    """Whether nothing below the folder is copied."""
    if not is_mirrored(folder.relative_to(run.root).as_posix() + "/x") and folder != run.final:
        return True
    if folder.parent == run.experiments:
        return at_work and not (folder / "experiment.json").is_file()
    if folder.parent.parent == run.experiments and not folder.with_name("experiment.json").is_file():
        return folder.name == "jobs" or (folder.name == "model" and not folder.with_name("training.json").is_file())
    return False


def storage_of(url: str | None, run_id: str = "") -> Storage:
    """Where runs lie, or this one. Raises InvalidRequestError where no address is named."""
    if url is None:
        raise InvalidRequestError("no storage is named: right is --storage s3://bucket/path, or TUNELOOP_STORAGE")
    return Storage("/".join(filter(None, (url.rstrip("/"), "runs", run_id))))


def check_mirror(url: str | None) -> None:
    """Before a run costs anything: its address, package, bucket and account. Raises InvalidRequestError.

    A storage that does not answer now is no reason: it may when there is something to copy.
    """
    if url is not None:
        try:
            Storage(url).check()
        except HubBusyError:
            return


@dataclass
class Push(Sender):
    """One copying of a run; what is there with its size is not sent again."""

    run: RunFolder = field(kw_only=True)

    def once(self, *, at_work: bool) -> RunCopy:
        """Objects, then the manifest, then what only the last manifest named. Raises as every method of a storage, or OSError."""
        before = read_copy(self.storage)
        self.check(before)
        openings = tuple(openings_of(home_of(self.run), lineage_of(self.run)))
        found = list(mirrored_files(self.run, at_work=at_work))
        self.known = frozenset(file.sha256 for file in before.files.values()) if before and at_work else frozenset()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            stored = list(pool.map(self.stored, (path for _, path in found)))
            once_each = {file.sha256: (path, file) for (_, path), file in zip(found, stored, strict=True)}
            deque(pool.map(lambda one: self.send(*one), once_each.values()), maxlen=0)
        copy = RunCopy(
            run=self.run.id,
            created=created_at(self.run),
            version=tuneloop.__version__,
            format=FORMAT,
            experiments=sum(name.endswith("/experiment.json") for name, _ in found),
            files={name: file for (name, _), file in zip(found, stored, strict=True)},
            openings=openings,
        )
        if self.run.report.is_file() and not self.run.report.is_symlink():  # for people who look into the storage
            self.put(REPORT, read_bytes(self.run.report, follow=False))
        self.put(MANIFEST, json_text(copy.model_dump(mode="json")).encode())
        if before:
            named = {file.sha256 for file in copy.files.values()}
            self.storage.remove(key_of(file) for file in before.files.values() if file.sha256 not in named)
        return copy

    def check(self, before: RunCopy | None) -> None:
        """Raises InvalidRequestError where another run lies there, or more of this one."""
        if before is None:
            return
        if before.created != created_at(self.run):
            raise InvalidRequestError(
                f"{self.storage.url} holds another run of this name, begun {before.created}: name another --storage"
            )
        if before.experiments > len(load_journal(self.run).experiments):
            raise InvalidRequestError(
                f"{self.storage.url} holds {before.experiments} experiments of run {self.run.id}, more than are here: "
                "it went on elsewhere; move this one aside, then: tuneloop pull"
            )
        for name in (one for one in before.files if PurePosixPath(one).match("experiments/*/experiment.json")):
            here = self.run.root / name
            if here.is_file() and digest_file(here) != before.files[name].sha256:
                raise InvalidRequestError(
                    f"{self.storage.url} holds another {name} of run {self.run.id} than is here: it went on elsewhere; "
                    "move this one aside, then: tuneloop pull"
                )

    def stored(self, path: Path) -> StoredFile:
        """Its size and hash. Raises HubBusyError where it went meanwhile."""
        self.stop()
        try:
            return stored_file(path, home_of(self.run).cache / "digests")
        except FileNotFoundError as e:
            raise HubBusyError(f"{path} was removed while it was copied") from e


def read_copy(storage: Storage) -> RunCopy | None:
    """What was copied last; None where nothing was. Raises InvalidRequestError for what is no manifest of ours."""
    data = storage.read_whole(MANIFEST, LARGEST)
    try:
        return None if data is None else RunCopy.model_validate_json(data)
    except ValidationError as e:
        raise InvalidRequestError(
            f"{storage.url}/{MANIFEST} is not what `tuneloop push` writes: {e.errors()[0]['msg']}"
        ) from e


def push_run(
    run: RunFolder,
    url: str | None,
    progress: Progress,
    *,
    stop: Callable[[], None] = lambda: None,
    at_work: bool | None = None,
) -> RunCopy:
    """Copy what the run has; asked again while the storage fails or a file changes.

    `at_work`: experiments that are not over may change; None: where a process holds the run.
    `stop` raises what ends it.

    Raises InvalidRequestError, InfrastructureError after several tries without getting on.
    """
    storage = storage_of(url, run.id)
    push = Push(storage, partial(progress, f"run {run.id} to {storage.url} (MB)"), stop, run=run)
    patience = RetryWaits()
    with exclusive(run.root.with_name(f".{run.id}.push.lock")):
        while True:
            before = push.sent
            try:
                return push.once(at_work=is_worked_on(run.root) if at_work is None else at_work)
            except HubBusyError as e:
                stop()
                patience.again(e, moved=push.sent > before)


def pull_run(home: Home, name: str, url: str | None, progress: Progress) -> RunFolder:
    """Bring a run back, whole or not at all; what a kill cut off is continued. Raises InvalidRequestError, InfrastructureError."""
    run, storage = home.run(name), storage_of(url, name)
    if run.root.exists():
        raise InvalidRequestError(f"run {name} is here: {run.root}; move it aside to have the one of {storage.url}")
    copy = with_retries(lambda: read_copy(storage))
    if copy is None:
        there = ", ".join(sorted(with_retries(storage_of(url).folders))[:20]) or "none"
        raise InvalidRequestError(f"no run {name!r} in {storage_of(url).url}; there: {there}")
    check_copy(copy, run)
    files = [
        RemoteFile(path=path, size=file.size, sha256=file.sha256)
        for path, file in sorted(copy.files.items())
        if not PurePosixPath(path).parts
        or path.startswith("/")
        or "\\" in path
        or is_mirrored(path)  # a name that is none is refused with the listing
    ]
    listing = HubListing(commit=digest(json_text(copy.model_dump(mode="json"))), files=tuple(files))
    hub, wanted = ObjectHub(storage, lambda _: listing, key_of), HubRequest(storage.url, "run")
    part = home.runs / f".{name}.{listing.commit[:12]}{TRASH}"
    with exclusive(part.with_suffix(".lock")):
        if not run.root.exists():
            download_files(hub, wanted, part, partial(progress, f"{wanted} (MB)"))
            fsync_tree(part)
            note_openings(home, openings_in(copy, RunFolder(part)))  # first: a kill in between must not lose them
            part.rename(run.root)
            fsync_path(home.runs)
    return run


def openings_in(copy: RunCopy, part: RunFolder) -> list[Opening]:
    """Openings of sealed tests that come with a run whose files are in the folder `part`."""
    lineage = (copy.run, *lineage_of(part)[1:])
    told = [one for one in copy.openings if not {one.run, one.of}.isdisjoint(lineage)]
    opened = part.report_json.is_file() and read_spec(part).evaluated  # whatever the manifest says
    own = [Opening(test="elsewhere", run=copy.run)] if opened and not any(one.run == copy.run for one in told) else []
    return [*told, *own]


def check_copy(copy: RunCopy, run: RunFolder) -> None:
    """Raises InvalidRequestError for a run of another name or format."""
    if copy.format != FORMAT:
        raise (newer_version_error if copy.format > FORMAT else older_version_error)(run, copy.version)
    if copy.run != run.id or "run.yaml" not in copy.files:
        raise InvalidRequestError(
            f"{MANIFEST} of run {copy.run[:80]!r} is not what `tuneloop push` writes for run {run.id}"
        )


def lineage_of(run: RunFolder) -> tuple[str, ...]:
    """The run, and those that it stands on."""
    return (run.id, read_fork(run).run, *read_fork(run).before) if run.fork.is_file() else (run.id,)
