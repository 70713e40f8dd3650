"""Reads lock files: exact pins, each with the SHA-256 of every file of its release."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

LINE = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)((?: --hash=sha256:[0-9a-f]{64})*)$")


@dataclass(frozen=True)
class Pin:
    """One package of a lock; `hashes` are SHA-256 in hexadecimal, none where the lock says why."""

    name: str
    version: str
    hashes: tuple[str, ...]


def read_lock(path: Path) -> list[Pin]:
    """The pins in the file's order. Raises ValueError on a line that is no exact pin."""
    text = re.sub(r"\s*\\\n\s*", " ", path.read_text(encoding="utf-8"))
    return [_pin(line, path) for line in text.splitlines() if line and line[0] != "#"]


def _pin(line: str, path: Path) -> Pin:
    match = LINE.match(line)
    if match is None:
        raise ValueError(f"{path}: {line[:80]!r} is no exact pin; right is name==version with --hash=sha256:… or none")
    return Pin(match[1], match[2], tuple(match[3].replace(" --hash=sha256:", " ").split()))
