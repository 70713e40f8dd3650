"""What is asked of a hub and what it lists: files with sizes and the hashes that they must have."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from tuneloop.core.errors import InvalidRequestError

if TYPE_CHECKING:
    import httpx2

Kind = Literal["model", "dataset", "run", "benchmark"]
PICKLED = "*.bin"
LEFT = ("*.pt", "*.pth", "*.msgpack", "*.h5", "*.onnx", "*.gguf", "*.py", "original/*")
OF_BENCHMARK = ("benchmark.yaml", "validation.jsonl", "test.jsonl", "*.py")  # a verifier runs in a sandbox only
OURS = ("/", "manifest.json", ".download")  # beginnings of paths that no file of a repository may have
READ = 1 << 20


class RemoteFile(BaseModel):
    """A file of a repository, with its hashes (hex; "" is unknown). `revision`: where it is asked for, if not the commit."""

    model_config = ConfigDict(frozen=True)

    path: str
    size: int
    sha256: str = ""
    git: str = ""
    md5: str = ""
    revision: str = ""

    def holds(self, file: Path) -> bool:
        """Whether `file`, which has the size, has the content that the hub lists."""
        wanted = self.sha256 or self.git or self.md5
        if not wanted:
            return True
        git = hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)
        weak = git if self.git else hashlib.md5(usedforsecurity=False)
        made = hashlib.sha256() if self.sha256 else weak
        with file.open("rb") as f:
            while piece := f.read(READ):
                made.update(piece)
        return made.hexdigest() == wanted


class HubListing(BaseModel):
    """The files of a repository at one commit."""

    model_config = ConfigDict(frozen=True)

    commit: str
    files: tuple[RemoteFile, ...]


@dataclass(frozen=True)
class HubRequest:
    """A repository, and which of its files."""

    name: str
    kind: Kind
    revision: str | None = None
    files: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As people read it."""
        return f"{self.kind} {self.name}"

    def choose(self, files: Iterable[RemoteFile]) -> tuple[RemoteFile, ...]:
        """The files that are taken. Raises InvalidRequestError when there is none, or one would lie outside of its folder."""
        found = tuple(files)
        left = ignored_patterns(self.kind, (f.path for f in found)) + self.without
        taken = tuple(f for f in found if _any(f.path, self.files or ("*",)) and not _any(f.path, left))
        if not taken:
            some = ", ".join(f.path for f in found[:5]) or "nothing"
            raise InvalidRequestError(
                f"{self} has no file that is wanted ({', '.join(self.files) or 'data'}); it has {some}"[:400]
            )
        for f in taken:
            parts = PurePosixPath(f.path).parts
            if not parts or parts[0] in OURS or ".." in parts or "\\" in f.path or "\0" in f.path:
                raise InvalidRequestError(f"{self} has a file that cannot lie in a folder: {f.path[:80]!r}")
        return taken


def ignored_patterns(kind: Kind, paths: Iterable[str]) -> tuple[str, ...]:
    """Patterns of what is not taken."""
    if kind in ("run", "benchmark"):
        return ()
    wanted = kind == "model" and not any(fnmatchcase(path, "*.safetensors") for path in paths)
    return LEFT if wanted else (*LEFT, PICKLED)


def _any(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


class Hub(Protocol):
    """Where repositories are fetched from."""

    name: str
    endpoint: str
    variable: str
    headers: dict[str, str]

    def listing(self, wanted: HubRequest) -> HubListing:
        """All files at the revision. Raises InvalidRequestError, InfrastructureError, or Busy."""

    def url(self, wanted: HubRequest, listing: HubListing, file: RemoteFile) -> str:
        """Where a file is asked for."""

    def refusal(self, response: httpx2.Response, wanted: HubRequest) -> Exception:
        """What an answer of 400 or more means: InvalidRequestError, InfrastructureError, or Busy when it is worth to ask again."""
