"""Shared folders that are complete or absent: made in a temporary place, declared whole by a manifest written last."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import digest, digest_file, fsync_path, fsync_tree, read_field, write_json
from tuneloop.core.locks import exclusive
from tuneloop.tools.housekeeping.disk import FULL

MANIFEST = "manifest.json"


def manifest_files(folder: Path) -> list[Path]:
    """Regular files below `folder`, sorted, the manifest left out."""
    return sorted(p for p in folder.rglob("*") if p.is_file() and p != folder / MANIFEST)


def make_complete(
    folder: Path, make: Callable[[Path], Mapping[str, Any] | None], *, keep: bool = False, **facts: Any
) -> Path:
    """Return `folder`, letting `make` fill it first when it is not there; two processes at once make it once.

    `make` gets an empty temporary folder beside `folder`, removed when it fails; what a crash left there is removed. With
    `keep` it gets what the last one left, to go on. `facts`, and those that `make` returns, go to the manifest.

    Raises InvalidRequestError for a folder without a manifest, InfrastructureError on a full disk.
    """
    if (folder / MANIFEST).is_file():
        return folder
    part = folder.with_name(f".{folder.name}.part")
    with exclusive(folder.with_name(f".{folder.name}.lock")):
        if (folder / MANIFEST).is_file():
            return folder
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        if folder.exists():  # what is made here gets its name when it is whole
            raise InvalidRequestError(
                f"{folder}: tuneloop did not make this folder and leaves it as it is: name it by its path, or move it away"
            )
        if part.exists() and not keep:
            shutil.rmtree(part)
        part.mkdir(parents=True, exist_ok=keep)
        try:
            write_manifest(part, **facts, **(make(part) or {}))
        except BaseException as e:
            kept = keep and any(part.iterdir())
            if not kept:
                shutil.rmtree(part, ignore_errors=True)
            if isinstance(e, OSError) and e.errno in FULL:
                left = f"what came is kept in {part.name}" if kept else "nothing half-made is left"
                raise InfrastructureError(f"{folder}: {e.strerror}; {left}: free some disk, then again") from e
            raise
        part.rename(folder)
        fsync_path(folder.parent)
    return folder


def write_manifest(folder: Path, **facts: Any) -> None:
    """Write the manifest of everything in `folder`, once all of it would survive a power cut."""
    fsync_tree(folder)
    hashes = {str(p.relative_to(folder)): digest_file(p) for p in manifest_files(folder)}
    write_json(folder / MANIFEST, {"files": hashes, **facts})


def fingerprint(folder: Path) -> str:
    """Hash of names and contents of the files below `folder` (or of one file); from the manifest where there is one."""
    if folder.is_file():
        return digest(f"{folder.name}:{digest_file(folder)}")
    manifest = folder / MANIFEST
    if manifest.is_file():
        hashes = read_field(manifest, "files", dict[str, str])
    else:
        hashes = {str(p.relative_to(folder)): digest_file(p) for p in manifest_files(folder)}
    return digest(*(f"{name}:{value}" for name, value in sorted(hashes.items())))
