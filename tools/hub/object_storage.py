"""Object storage at `s3://`, `gs://` and `file://`: bounded listings, reads from any byte, whole writes; all of fsspec is here."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InfrastructureError, InvalidRequestError, PausedError
from tuneloop.core.files import digest
from tuneloop.core.setting_values import parse_storage_url
from tuneloop.tools.hub.http import FileGoneError, HubBusyError
from tuneloop.tools.hub.listing import HubListing, HubRequest, RemoteFile

MOST = 100_000  # objects below one address
PIECE = 8 << 20  # bytes of one request; of what is uploaded in several parts four of them a part
OWN = (InvalidRequestError, InfrastructureError, PausedError, HubBusyError, FileGoneError)
NO_CREDENTIALS = re.compile("Credential|Profile|TokenRetrieval|RefreshError|SSO")
RIGHT = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, of an account that may use it",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, of an account that may use it",
    "file": "a folder that you may read and write",
}
EXTRA = {"s3": "s3", "gs": "gcs", "file": "s3"}
MD5 = re.compile("[0-9a-f]{32}")


class Storage:
    """What lies below one address. Every method raises InvalidRequestError, or HubBusyError where it is worth to ask again."""

    def __init__(self, url: str) -> None:
        """Raises InvalidRequestError for an address that is none; nothing is asked yet."""
        try:
            self.url = str(parse_storage_url(url))
        except ValueError as e:
            raise InvalidRequestError(f"{url!r}: {e}") from e
        self.scheme, _, self.root = self.url.partition("://")

    @cached_property
    def files(self) -> Any:
        """The file system of fsspec. Raises InvalidRequestError where its package is not installed."""
        try:
            import fsspec  # slow, and most runs use no storage

            make: Callable[..., Any] = fsspec.filesystem  # has no types
            return make(self.scheme, use_listings_cache=False)
        except ImportError as e:
            raise InvalidRequestError(f"{self.url} needs: pip install 'tuneloop[{EXTRA[self.scheme]}]'") from e

    @contextmanager
    def naming_errors(self) -> Iterator[None]:
        """Failures in one line; the libraries' own texts may hold names of accounts and are not shown."""
        try:
            yield
        except OWN:
            raise
        except FileNotFoundError as e:
            raise InvalidRequestError(f"{self.url} is not there: no such bucket, folder or object") from e
        except Exception as e:
            if isinstance(e, PermissionError) or NO_CREDENTIALS.search(type(e).__name__):
                raise InvalidRequestError(f"{self.url} may not be used: right is {RIGHT[self.scheme]}") from e
            raise HubBusyError(
                f"{self.url} cannot be reached or fails ({type(e).__name__}): check the network, and AWS_ENDPOINT_URL if it is set"
            ) from e

    def check(self) -> None:
        """Ask for one thing: whether the place is there and may be used."""
        with self.naming_errors():
            if self.scheme == "s3":
                self.files.call_s3("list_objects_v2", Bucket=self.root.partition("/")[0], MaxKeys=1)
            elif self.scheme == "file":
                self.files.makedirs(self.root, exist_ok=True)
            else:
                self.files.info(self.root.partition("/")[0])

    def try_out(self, *, conditional: bool = False) -> None:
        """Write a small object, read it and remove it; `conditional`: a write that must not replace it is tried too."""
        key = f".tried-{secrets.token_hex(8)}"
        self.check()
        self.write(key, iter([key.encode()]), len(key))
        there, taken = self.read_whole(key, 1 << 10), conditional and self.create(key, b"another")
        self.remove([key])
        if there != key.encode():
            raise HubBusyError(f"{self.url} does not work: it gives back other bytes than were written")
        if taken:
            raise InvalidRequestError(
                f"{self.url} knows no conditional writes: right is a storage that honours If-None-Match"
            )

    def listing(self) -> tuple[RemoteFile, ...]:
        """All objects, with their size and a mark that changes with them; of the address of one object this one, in its folder."""
        with self.naming_errors():
            found = tuple(islice(self._rows(), MOST + 1))
            if not found:
                one = self.files.info(self.root)
                self.root, _, name = self.root.rpartition("/")
                found = (_remote(name, one),) if one["type"] == "file" else ()
        if len(found) > MOST:
            raise InvalidRequestError(
                f"{self.url} holds more than {MOST} objects: name a folder of it that holds fewer"
            )
        return found

    def _rows(self) -> Iterator[RemoteFile]:
        """In no order; `file://` is walked and `s3://` paged here, so that the bound holds before all are known."""
        if self.scheme == "file":
            yield from _local_rows(Path("/" + self.root.lstrip("/")))
        elif self.scheme == "s3":
            yield from self._pages()
        else:
            for name, info in self.files.find(self.root, detail=True).items():
                yield _remote(name.removeprefix(self.root + "/"), info)

    def _pages(self) -> Iterator[RemoteFile]:
        bucket, _, key = self.root.partition("/")
        prefix, plain = f"{key}/" if key else "", None
        more: dict[str, str] = {}
        while True:
            page = self.files.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, **more)
            for row in page.get("Contents", ()):
                if row["Key"].endswith("/"):  # what consoles make for an empty folder
                    continue
                if plain is None:  # where a key of the user's encrypts, the ETag is no MD5
                    head = self.files.call_s3("head_object", Bucket=bucket, Key=row["Key"])
                    plain = (
                        head.get("ServerSideEncryption", "AES256") == "AES256" and "SSECustomerAlgorithm" not in head
                    )
                found = _remote(row["Key"].removeprefix(prefix), {"size": row["Size"], "ETag": row["ETag"]})
                yield found if plain else found.model_copy(update={"md5": ""})
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def read(self, key: str, start: int = 0, mark: str = "") -> Iterator[bytes]:
        """An object's bytes from `start` on. Raises FileGoneError when it is gone, or has changed since it had the `mark`."""
        path = f"{self.root}/{key}"
        with self.naming_errors():
            try:
                if mark and _remote(key, self.files.info(path)).revision != mark:
                    raise FileGoneError(f"{key} as it was")
                with self.files.open(path, "rb", **({} if self.scheme == "file" else {"cache_type": "none"})) as f:
                    f.seek(start)
                    while piece := f.read(PIECE):
                        yield piece
            except FileNotFoundError as e:
                raise FileGoneError(key) from e

    def read_whole(self, key: str, most: int) -> bytes | None:
        """A small object; None where there is none. Raises InvalidRequestError for more than `most` bytes."""
        data = b""
        try:
            for piece in self.read(key):
                data += piece
                if len(data) > most:
                    raise InvalidRequestError(f"{self.url}/{key} is larger than {most} bytes: it is none of ours")
        except FileGoneError:
            return None
        return data

    def size(self, key: str) -> int | None:
        """Bytes of an object; None where there is none."""
        with self.naming_errors():
            try:
                return int(self.files.info(f"{self.root}/{key}")["size"])
            except FileNotFoundError:
                return None

    def write(self, key: str, pieces: Iterable[bytes], size: int) -> None:
        """An object of `size` bytes, whole or not at all. Raises as every method, also when it has another size then."""
        path = f"{self.root}/{key}"
        with self.naming_errors():
            if self.scheme == "file":
                self._write_local(path, pieces)
            elif size <= PIECE:
                self.files.pipe_file(path, b"".join(pieces))
            else:
                self._write_parts(path, pieces)
        if (there := self.size(key)) != size:
            raise HubBusyError(f"{self.url}/{key} has {there} bytes after {size} were written")

    def create(self, key: str, data: bytes) -> bool:
        """Make a small object where there is none; whether it is ours, also where a network lost the answer: `data` is unique."""
        path = f"{self.root}/{key}"
        with self.naming_errors():
            try:
                if self.scheme == "file":
                    self.files.makedirs(path.rpartition("/")[0], exist_ok=True)
                    with Path(path).open("xb") as f:
                        f.write(data)
                else:
                    self.files.pipe_file(path, data, mode="create")
            except OSError as e:  # of a condition that does not hold, among others
                if (there := self.read_whole(key, 1 << 12)) is None:
                    raise HubBusyError(f"{self.url}/{key} cannot be made ({type(e).__name__})") from e
                return there == data
        return True

    def _write_local(self, path: str, pieces: Iterable[bytes]) -> None:
        """Under another name first."""
        part = f"{path}.{os.getpid()}.part"
        self.files.makedirs(path.rpartition("/")[0], exist_ok=True)
        with self.files.open(part, "wb") as f:
            f.writelines(pieces)
            f.flush()
            os.fsync(f.fileno())
        self.files.mv(part, path)

    def _write_parts(self, path: str, pieces: Iterable[bytes]) -> None:
        """In parts, which count when the last has come; a failure leaves nothing."""
        f = self.files.open(path, "wb", block_size=4 * PIECE, autocommit=False)
        try:
            for piece in pieces:
                f.write(piece)
            f.close()
        except BaseException:
            f.discard()
            raise
        f.commit()

    def remove(self, keys: Iterable[str]) -> None:
        """Objects that are there or not."""
        with self.naming_errors():
            for key in keys:
                if self.files.exists(f"{self.root}/{key}"):
                    self.files.rm_file(f"{self.root}/{key}")

    def folders(self) -> list[str]:
        """Names of the folders right below."""
        with self.naming_errors():
            rows = self.files.ls(self.root, detail=True) if self.files.exists(self.root) else []
        return [row["name"].rstrip("/").rpartition("/")[2] for row in rows if row["type"] == "directory"]


def _remote(name: str, info: dict[str, Any]) -> RemoteFile:
    """What fsspec, or a page of S3, says of one object."""
    mark = info.get("ETag") or info.get("etag") or info.get("mtime") or ""
    etag = str(mark).strip('"')
    return RemoteFile(
        path=name, size=info["size"], md5=etag if "ETag" in info and MD5.fullmatch(etag) else "", revision=etag
    )


def _local_rows(root: Path) -> Iterator[RemoteFile]:
    """Plain files. Raises InvalidRequestError at a link, also the root itself: it could lead anywhere."""
    _refuse_link(root)
    for folder, names, files in os.walk(root):
        for path in (Path(folder) / name for name in (*names, *files)):
            _refuse_link(path)
            if path.name in files and path.is_file():
                try:
                    seen = path.stat()
                except FileNotFoundError:  # what was being written has its name now
                    continue
                yield _remote(str(path.relative_to(root)), {"size": seen.st_size, "mtime": seen.st_mtime})


def _refuse_link(path: Path) -> None:
    """Raises InvalidRequestError for a symbolic link."""
    if path.is_symlink():
        raise InvalidRequestError(f"file://{path} is a symbolic link; right is the file itself")


def check_storage(url: str) -> None:
    """Raises InvalidRequestError for an address that is none, or whose package is not installed; nothing is asked."""
    assert Storage(url).files


@dataclass(frozen=True)
class ObjectHub:
    """A storage as a hub: `listed` is what it has, `key` where an object of it lies."""

    storage: Storage
    listed: Callable[[HubRequest], HubListing]
    key: Callable[[RemoteFile], str] = lambda file: file.path
    name: str = "storage"

    @property
    def endpoint(self) -> str:
        """As hubs call it."""
        return self.storage.url

    def listing(self, wanted: HubRequest) -> HubListing:
        """All objects. Raises as every method of a storage."""
        return self.listed(wanted)

    def pieces(self, file: RemoteFile, start: int) -> Iterator[bytes]:
        """A file from `start` on. Raises FileGoneError when it is not what was listed."""
        return self.storage.read(self.key(file), start, file.revision)


def listed_objects(storage: Storage, files: Iterable[RemoteFile]) -> HubListing:
    """Files under an identity of names, sizes and marks."""
    found = sorted(files, key=lambda file: file.path)
    return HubListing(
        commit=digest(storage.url, *(f"{f.path} {f.size} {f.revision}" for f in found)), files=tuple(found)
    )
