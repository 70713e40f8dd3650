"""An engine as jobs see it, and the manifest that proves that it is whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuneloop.core.files import digest, read_json, write_json

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Engine:
    """`readable`: every path a job must see to run it; `env`: what its jobs need besides; `packages`: name → version."""

    name: str
    folder: Path
    python: Path
    bin: Path
    readable: tuple[str, ...]
    version: str
    identity: str
    env: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """What `engines/check.py` saw in an environment; `torch` is a hash of torch's installed files."""

    python: str
    base_prefix: str
    packages: Mapping[str, str]
    torch: str
    problems: tuple[str, ...]


def describe(name: str, python: Path, found: Found, *ingredients: str, source: Path | None = None) -> Engine:
    """The engine around `python`; `source` is a checkout whose package is used instead of the installed one."""
    folder = python.parent.parent
    links = [str(link) for link in hops(python) if not link.is_relative_to(folder)]
    readable = [str(folder), found.base_prefix, *links, *([str(source)] if source else [])]
    return Engine(
        name=name,
        folder=folder,
        python=python,
        bin=python.parent,
        readable=tuple(dict.fromkeys(readable)),
        version=found.packages.get(name, "unknown"),
        identity=digest(name, found.python, found.torch, *ingredients),
        env={"PYTHONPATH": str(source)} if source else {},
        packages=found.packages,
    )


def hops(python: Path) -> Iterable[Path]:
    """The links between an environment's `python` and the real one."""
    path = python
    while path.is_symlink():
        path = Path(os.path.normpath(path.parent / path.readlink()))
        if path.is_symlink():
            yield path


def write_manifest(engine: Engine, path: Path) -> None:
    """Last, atomically: from now on the engine is believed."""
    paths = {"folder": str(engine.folder), "python": str(engine.python), "bin": str(engine.bin)}
    plain = {"name": engine.name, "version": engine.version, "identity": engine.identity}
    rest = {"readable": engine.readable, "env": dict(engine.env), "packages": dict(engine.packages)}
    write_json(path, {**plain, **paths, **rest})


def read_manifest(path: Path) -> Engine | None:
    """None when there is none or its interpreter is gone; a moved environment is not believed, its scripts name paths."""
    try:
        given: dict[str, Any] = read_json(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    for key in ("folder", "python", "bin"):
        given[key] = Path(given[key])
    engine = Engine(**{**given, "readable": tuple(given["readable"])})
    return engine if engine.python.exists() and all(map(os.path.exists, engine.readable)) else None
