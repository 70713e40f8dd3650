"""Repositories of the local hub: files under commits, as git and LFS name them."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

Kind = Literal["models", "datasets"]

REPOS = Path(__file__).parent / "repos"
LARGE = 10_000_000
LFS = {".arrow", ".bin", ".gz", ".h5", ".parquet", ".pkl", ".png", ".pt", ".safetensors", ".tar", ".zip"}


@dataclass(frozen=True)
class Blob:
    """One file of a commit."""

    path: str
    data: bytes

    @cached_property
    def git(self) -> str:
        """Name that git gives to what is in the repository: the content, or the pointer that stands for it."""
        text = self.pointer if self.lfs else self.data
        return hashlib.sha1(b"blob %d\0" % len(text) + text).hexdigest()

    @cached_property
    def sha256(self) -> str:
        """Name of the content in LFS."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def lfs(self) -> bool:
        """Whether the hub keeps it beside git: by its kind, or because it is large."""
        return Path(self.path).suffix in LFS or len(self.data) > LARGE

    @property
    def pointer(self) -> bytes:
        """What lies in git for a file of LFS."""
        head = "version https://git-lfs.github.com/spec/v1\n"
        return f"{head}oid sha256:{self.sha256}\nsize {len(self.data)}\n".encode()

    @property
    def etag(self) -> str:
        """The hub's: SHA-256 of a file of LFS, else git's name."""
        return self.sha256 if self.lfs else self.git


@dataclass
class Repository:
    """A repository; `main` names its newest commit, older ones stay. `closed` to all but tokens in `readers`."""

    kind: Kind
    name: str
    commits: dict[str, dict[str, Blob]] = field(default_factory=dict)
    main: str = ""
    closed: Literal["", "gated", "private"] = ""
    readers: frozenset[str] = frozenset()

    def commit(self, files: Mapping[str, bytes]) -> str:
        """Put `files` in place of what `main` has; the commit's name."""
        blobs = {path: Blob(path, data) for path, data in sorted(files.items())}
        parts = [self.kind, self.name, self.main, *(f"{b.path} {b.git}" for b in blobs.values())]
        self.main = hashlib.sha1("\n".join(parts).encode()).hexdigest()
        self.commits[self.main] = blobs
        return self.main

    def at(self, revision: str) -> str | None:
        """The commit of a revision; None when there is none."""
        name = self.main if revision == "main" else revision
        return name if name in self.commits else None


def load(kind: Kind, name: str) -> Repository | None:
    """The repository that `repos/<kind>/<org>/<name>.py` makes; None without one."""
    file = REPOS / kind / f"{name}.py"
    if not file.is_file():
        return None
    repository = Repository(kind, name)
    repository.commit(generator(file)())
    return repository


def generator(file: Path) -> Callable[[], dict[str, bytes]]:
    """The function `files` of a module that is named as the hub names repositories."""
    spec = importlib.util.spec_from_file_location("tests_hub_repo", file)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Callable[[], dict[str, bytes]] = module.files
    return made
