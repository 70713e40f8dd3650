"""What lies in a data set's folder, as text: its cards and its tree."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tuneloop.core.wording import clean

CARD, CARDS = 5000, 20
LINES = 150
DEPTH = 2


def readmes(root: Path) -> dict[str, str]:
    """Cards within two folders, by path, at most 5,000 characters each."""
    if root.is_file():
        return {}
    found = sorted(
        path
        for pattern in ("*", "*/*", "*/*/*")
        for path in root.glob(pattern)
        if path.name.lower().startswith("readme") and path.is_file() and not hidden(path.relative_to(root))
    )
    return {str(p.relative_to(root)): p.open(encoding="utf-8", errors="replace").read(CARD) for p in found[:CARDS]}


def tree(root: Path) -> str:
    """Folders and files with their bytes, at most 150 lines."""
    if root.is_file():
        return f"{clean(root.name)}  {root.stat().st_size:,}"
    lines: list[str] = []
    for line in branches(root, 0):
        if len(lines) == LINES - 1:
            return "\n".join([*lines, "…"])
        lines.append(line)
    return "\n".join(lines)


def branches(folder: Path, depth: int) -> Iterator[str]:
    """Lines of a folder, the deeper the further in."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda e: e.name)
    for entry in found:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield f"{'  ' * depth}{clean(entry.name)}/"
            yield from branches(Path(entry.path), depth + 1)
        else:
            yield f"{'  ' * depth}{clean(entry.name)}  {entry.stat().st_size if entry.is_file() else 0:,}"


def hidden(path: Path) -> bool:
    """Whether a part of it begins with a dot."""
    return any(part.startswith(".") for part in path.parts)
