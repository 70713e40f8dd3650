"""Download what a hub lists into a folder: several files at once, in ranges where a part is there, each checked by its hash."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from tuneloop.core.errors import InfrastructureError, InvalidRequestError, PausedError
from tuneloop.core.files import digest, fsync_path, write_json
from tuneloop.tools.housekeeping.disk import check_room
from tuneloop.tools.hub.http import (
    FileGoneError,
    HubBusyError,
    RetryWaits,
    connection_lost,
    http_client,
    open_url,
    retry_after,
    url_origin,
    with_retries,
)
from tuneloop.tools.hub.listing import Hub, HubListing, HubRequest, RemoteFile
from tuneloop.tools.hub.object_storage import ObjectHub

if TYPE_CHECKING:
    import httpx2

UNDER_WAY, PLAN = ".download", "plan.json"
AT_ONCE = 4
MEGA = 1_000_000
PARTIAL, BAD, MISSING, BEYOND = 206, 400, 404, 416


class DownloadPlan(BaseModel):
    """What a download was begun for, and the listing it goes by until it is whole."""

    asked: str
    listing: HubListing


def download_files(hub: Hub | ObjectHub, wanted: HubRequest, part: Path, say: Callable[[int, int], None]) -> HubListing:
    """Fetch into `part` what is wanted and not there yet; `say(done, total)` in megabytes.

    The commit is the one that the first of several tries found. Raises InvalidRequestError, InfrastructureError, or OSError (disk).
    """
    listing = plan_download(hub, wanted, part)
    try:
        Download(hub, wanted, listing, part, say).all()
    except FileGoneError as e:
        (part / UNDER_WAY / PLAN).unlink()
        raise InfrastructureError(
            f"{wanted}: {hub.endpoint} lists {e} at {listing.commit[:12]} and does not have it; again, and it is listed anew"
        ) from e
    shutil.rmtree(part / UNDER_WAY)
    return listing


def plan_download(hub: Hub | ObjectHub, wanted: HubRequest, part: Path) -> HubListing:
    """The listing that a cut download went by, else the hub's of now; another one's leftovers are removed."""
    asked = digest(hub.name, *map(str, (wanted.name, wanted.kind, wanted.revision, wanted.files, wanted.without)))
    file = part / UNDER_WAY / PLAN
    try:
        plan = DownloadPlan.model_validate_json(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValidationError, UnicodeDecodeError):
        plan = None
    if plan is not None and plan.asked == asked:
        return plan.listing
    found = with_retries(lambda: hub.listing(wanted))
    listing = HubListing(commit=found.commit, files=wanted.choose(found.files))
    clear_folder(part)
    check_room(part, sum(f.size for f in listing.files), str(wanted))
    write_json(file, DownloadPlan(asked=asked, listing=listing).model_dump(mode="json"))
    return listing


def clear_folder(folder: Path) -> None:
    """Remove what lies in `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)


@dataclass
class Download:
    """One download: what it is for, and how far it is."""

    hub: Hub | ObjectHub
    wanted: HubRequest
    listing: HubListing
    part: Path
    say: Callable[[int, int], None]
    done: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)

    def all(self) -> None:
        """Every file; the first failure ends all."""
        self.count(0)
        with http_client() as http, ThreadPoolExecutor(AT_ONCE) as pool:
            under_way = [pool.submit(self.one, http, file) for file in self.listing.files]
            try:
                finished, _ = wait(under_way, return_when=FIRST_EXCEPTION)
            finally:
                self.stop.set()  # also when Ctrl-C ended the waiting
                pool.shutdown(wait=True, cancel_futures=True)
        errors = [e for f in finished if (e := f.exception()) is not None]
        raise_first_error(errors)

    @cached_property
    def size(self) -> int:
        """Bytes of everything."""
        return sum(f.size for f in self.listing.files)

    def count(self, size: int) -> None:
        """So many bytes more are here."""
        with self.lock:
            self.done += size
            self.say(self.done // MEGA if self.done < self.size else -(-self.size // MEGA), -(-self.size // MEGA))

    def one(self, http: httpx2.Client, file: RemoteFile) -> None:
        """Make the file be there, whole and checked. Raises InvalidRequestError, InfrastructureError, PausedError, OSError."""
        place = self.part / file.path
        if place.is_file() and place.stat().st_size == file.size:  # it was checked before it got its name
            return self.count(file.size)
        begun = self.part / UNDER_WAY / digest(file.path)
        begun.touch()
        self.count(begun.stat().st_size)
        self.fill(http, file, begun)
        if not file.holds(begun):
            self.again(begun)
            self.fill(http, file, begun)
        if not file.holds(begun):
            begun.unlink()
            raise InfrastructureError(
                f"{self.wanted}: {file.path} does not have the hash that {self.hub.endpoint} lists, twice: a mirror or a "
                "cache on the way changes it; nothing of it is used"
            )
        fsync_path(begun)
        place.parent.mkdir(parents=True, exist_ok=True)
        begun.rename(place)
        return None

    def fill(self, http: httpx2.Client, file: RemoteFile, begun: Path) -> None:
        """Go on until the file has its size, however often the connection is lost."""
        patience, most = RetryWaits(self.rest), begun.stat().st_size
        while begun.stat().st_size != file.size:
            try:
                self.take(http, file, begun)
                if begun.stat().st_size != file.size:
                    word = "less" if begun.stat().st_size < file.size else "more"
                    raise HubBusyError(f"{self.hub.endpoint} sends {word} of {file.path} than it lists")
            except HubBusyError as e:
                if begun.stat().st_size > file.size:
                    self.again(begun)
                there = begun.stat().st_size
                patience.again(e, moved=there > most)  # beyond all earlier attempts: some begin anew each time
                most = max(most, there)

    def take(self, http: httpx2.Client, file: RemoteFile, begun: Path) -> None:
        """Append what one answer brings. Raises Busy when it is worth to ask again."""
        if isinstance(self.hub, ObjectHub):
            return self.append(self.hub.pieces(file, begun.stat().st_size), file, begun)
        return self.take_by_http(self.hub, http, file, begun)

    def take_by_http(self, hub: Hub, http: httpx2.Client, file: RemoteFile, begun: Path) -> None:
        """As `take`, where a range may be refused or passed over."""
        import httpx2

        there = begun.stat().st_size
        ranges = {"Range": f"bytes={there}-"} if there else {}
        try:
            with open_url(http, hub, hub.url(self.wanted, self.listing, file), **ranges) as answer:
                if answer.status_code == BEYOND:
                    return self.again(begun)
                if answer.status_code >= BAD:
                    raise self.refusal(hub, answer, file)
                if there and not (answer.status_code == PARTIAL and range_begins_at(answer, there)):
                    self.again(begun)  # it does not know ranges
                self.append(answer.iter_bytes(), file, begun)
        except httpx2.HTTPError as e:
            raise connection_lost(hub, e) from e
        return None

    def refusal(self, hub: Hub, answer: httpx2.Response, file: RemoteFile) -> Exception:
        """What an answer of 400 or more means; another host may have had enough of an address that was signed for a while."""
        if answer.status_code == MISSING:
            return FileGoneError(file.path)
        if url_origin(str(answer.url)) != url_origin(hub.endpoint):
            return HubBusyError(
                f"the host that {hub.endpoint} sends files from fails ({answer.status_code})", retry_after(answer)
            )
        return hub.refusal(answer, self.wanted)

    def append(self, pieces: Iterable[bytes], file: RemoteFile, begun: Path) -> None:
        """Write the answer as it comes: what a kill leaves is what had come."""
        room = file.size - begun.stat().st_size
        with begun.open("ab", buffering=0) as f:
            for piece in pieces:
                if self.stop.is_set():
                    raise PausedError("the download was interrupted")
                more = memoryview(piece)[: room + 1]  # one byte too many is enough to see that it is another file
                while more:
                    written = f.write(more)
                    self.count(written)
                    room, more = room - written, more[written:]
                if room < 0:
                    return

    def again(self, begun: Path) -> None:
        """Forget what came of a file."""
        self.count(-begun.stat().st_size)
        begun.write_bytes(b"")

    def rest(self, seconds: float) -> None:
        """Wait, unless the download is ended."""
        if self.stop.wait(seconds):
            raise PausedError("the download was interrupted")


def range_begins_at(answer: httpx2.Response, there: int) -> bool:
    """Whether a range begins where the part ends."""
    said = str(answer.headers.get("Content-Range", ""))
    return said.startswith(f"bytes {there}-")


def raise_first_error(errors: list[BaseException]) -> None:
    """The failure that tells most: what the user or the disk did, before what was ended because of it."""
    for kind in (InvalidRequestError, OSError, FileGoneError, InfrastructureError, BaseException):
        for error in errors:
            if isinstance(error, kind):
                raise error
