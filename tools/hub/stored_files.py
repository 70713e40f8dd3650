"""Files in object storage by their content: `objects/<sha256>`, sent once, never changed once there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, ConfigDict, Field

from tuneloop.core.files import open_plain
from tuneloop.tools.hub.download import MEGA
from tuneloop.tools.hub.http import HubBusyError
from tuneloop.tools.hub.listing import RemoteFile
from tuneloop.tools.hub.object_storage import PIECE, Storage
from tuneloop.tools.weights.fingerprints import cached_digest


class StoredFile(BaseModel):
    """A file as it was copied."""

    model_config = ConfigDict(frozen=True)

    size: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


def stored_file(path: Path, notes: Path) -> StoredFile:
    """Its size and hash; `notes`: a folder that remembers those of large files."""
    return StoredFile(size=path.stat().st_size, sha256=cached_digest(path, notes))


def key_of(file: StoredFile | RemoteFile) -> str:
    """Where a file's content lies below the run's address."""
    return f"objects/{file.sha256}"


@dataclass
class Sender:
    """Sends files below one address; `known`: hashes that need not be sent.

    `say(sent, 0)` in megabytes; `stop` raises what ends it.
    """

    storage: Storage
    say: Callable[[int, int], None] = lambda *_: None
    stop: Callable[[], None] = lambda: None
    sent: int = 0
    known: frozenset[str] = frozenset()

    def send(self, path: Path, stored: StoredFile) -> None:
        """Make its object be there. Raises HubBusyError when the file changed meanwhile."""
        self.stop()
        if stored.sha256 in self.known or self.storage.size(key_of(stored)) == stored.size:
            return
        try:
            with open_plain(path, most=1 << 62, follow=False) as f:
                self.storage.write(key_of(stored), self.pieces(f, stored), stored.size)
        except FileNotFoundError as e:
            raise HubBusyError(f"{path} was removed while it was copied") from e

    def pieces(self, f: BinaryIO, stored: StoredFile) -> Iterator[bytes]:
        """What is read, as long as it is what was hashed: an object has the name of its content."""
        made, left = hashlib.sha256(), stored.size
        while left and (piece := f.read(min(PIECE, left))):
            self.stop()
            made.update(piece)
            left -= len(piece)
            if not left and made.hexdigest() != stored.sha256:
                break
            self.sent += len(piece)
            self.say(self.sent // MEGA, 0)
            yield piece
        if made.hexdigest() != stored.sha256:
            raise HubBusyError("a file changed while it was copied")

    def put(self, key: str, data: bytes) -> None:
        """A small object."""
        self.storage.write(key, iter([data]), len(data))
