"""Read files that a job wrote as a stranger's: plain files of bounded size at the very place, plain JSON."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

LARGEST = 1 << 28  # bytes
LARGEST_NUMBER = 1 << 62  # of a whole number that is worked with: a float holds it


def read_bytes(path: Path, most: int = LARGEST) -> bytes:
    """A plain file's content. Raises FileNotFoundError, or ValueError for a link, a pipe, a folder, more than `most`."""
    try:
        # a pipe without a writer would block for ever
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as e:
        raise ValueError(f"{path} is no plain file: {e.strerror}") from e
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError(f"{path} is no plain file")
    with os.fdopen(handle, "rb") as f:
        data = f.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{path} is larger than {most} bytes")
    return data


def read_strange_json(path: Path, most: int = LARGEST) -> Any:
    """The value in `path`; NaN, infinities and nesting beyond Python's patience are refused. Raises as `read_bytes`."""
    return strict_json(read_bytes(path, most))


def read_figures(path: Path, most: int = LARGEST) -> Iterator[dict[str, Any]]:
    """The numbers of each row of a log of JSON lines, NaN among them; torn and foreign lines are skipped.

    Raises as `read_bytes`.
    """
    for line in read_bytes(path, most).decode("utf-8", "replace").splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield figures(row)


def figures(row: dict[str, Any]) -> dict[str, Any]:
    """What of a row are numbers that can be worked with."""
    return {name: value for name, value in row.items() if is_figure(value)}


def is_figure(value: object) -> bool:
    """Whether it is a number, finite or not, and no whole number beyond all use."""
    return type(value) is float or (type(value) is int and abs(value) < LARGEST_NUMBER)


def strict_json(data: bytes) -> Any:
    """Plain JSON with finite numbers and texts that can be written again. Raises ValueError."""
    try:
        value = json.loads(data, parse_constant=_refused, parse_float=_finite)
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as e:
        raise ValueError("nested too deeply") from e
    return value


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no finite number")
    return value
