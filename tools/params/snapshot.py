"""What an engine's own classes said of every parameter when it was built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneloop.core.errors import SetupError
from tuneloop.core.files import read_json


@dataclass(frozen=True)
class Snapshot:
    """`parameters`: name → default, choices, settable."""

    path: Path
    versions: Mapping[str, str]
    parameters: Mapping[str, Mapping[str, Any]]


def read_snapshot(path: Path) -> Snapshot:
    """The snapshot in a file. Raises SetupError when it is none."""
    try:
        given = read_json(path)
        return Snapshot(path, given["versions"], given["parameters"])
    except (ValueError, KeyError, TypeError) as e:
        raise SetupError(f"{path}: no snapshot of parameters; delete it, `tuneloop params diff` makes it again") from e
