"""Add servers to a program's JSON file and keep everything else that is in it."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuneloop.core.errors import SetupError
from tuneloop.core.files import write_atomic

INDENT = re.compile(r"^\{\s*\n([ \t]+)")


def read(path: Path) -> str:
    """The file's text, "" when there is none. Raises SetupError for what cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as e:
        raise SetupError(f"{path}: cannot be read: {e}") from e


def parsed(text: str, path: Path) -> dict[str, Any]:
    """The object in a file. Raises SetupError in one line for JSON that cannot be written back as it was."""
    try:
        found = json.loads(text, object_pairs_hook=once) if text.strip() else {}
    except (ValueError, RecursionError) as e:
        raise SetupError(
            f"{path}: not plain JSON: {e}; nothing was changed: mend it, or add what --print shows by hand"
        ) from e
    if not isinstance(found, dict):
        raise SetupError(f"{path}: holds no JSON object; nothing was changed")
    return found


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are there once. Raises ValueError: one of two would be lost."""
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice!r} is there twice")
    return dict(pairs)


def merged(text: str, path: Path, key: str, servers: Mapping[str, Any]) -> str:
    """The file's new text: `servers` below `key`, all else as it was; the same text when nothing is new."""
    whole = parsed(text, path)
    there = whole.get(key, {})
    if not isinstance(there, dict):
        raise SetupError(f"{path}: {key} holds no JSON object; nothing was changed")
    if all(there.get(name) == entry for name, entry in servers.items()):
        return text
    indent = INDENT.match(text.lstrip("\ufeff"))
    plain = bool(text) and text.isascii()  # escapes stay escapes
    made = json.dumps({**whole, key: {**there, **servers}}, indent=indent[1] if indent else 2, ensure_ascii=plain)
    return made + ("" if text and not text.endswith("\n") else "\n")


def difference(path: Path, old: str, new: str) -> str:
    """What would change, as a unified diff."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), str(path), str(path), n=2, lineterm="")
    return "\n".join(lines)


def write(path: Path, old: str, new: str) -> None:
    """Put the new text in place, whole or not at all, with the file's own permissions; links are followed.

    Raises SetupError when somebody has changed the file since it was read.
    """
    path = path.resolve()
    try:
        if read(path) != old:
            raise SetupError(f"{path}: was changed in the meantime; nothing was written: try again")
        mode = path.stat().st_mode & 0o777 if old else 0o600
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, new, mode=mode)
    except OSError as e:
        raise SetupError(f"{path}: cannot be written: {os.strerror(e.errno or 0)}") from e
