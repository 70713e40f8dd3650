"""Read files that a job wrote as a stranger's: plain files of bounded size at the very place, plain JSON."""

from __future__ import annotations

import ast
import contextlib
import json
import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from tuneloop.core import files
from tuneloop.core.errors import DamagedFileError

LARGEST = 1 << 28  # bytes
LARGEST_NUMBER = 1 << 62  # of a whole number that is worked with: a float holds it
DEEPEST = 200  # lists and objects in each other; how many Python itself reads differs by its version


def read_bytes(path: Path, most: int = LARGEST) -> bytes:
    """A plain file's content. Raises FileNotFoundError, or ValueError for a link, a pipe, a folder, more than `most`."""
    with refusing(path):
        return files.read_bytes(path, most, follow=False)


def check_plain(path: Path, most: int) -> None:
    """For a file that is read in pieces later. Raises as `read_bytes`; `most`: bytes by its apparent size."""
    with refusing(path):
        files.open_plain(path, most, follow=False).close()


@contextlib.contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Report what is wrong with a job's file, without the remedy for a damaged home. Raises ValueError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except DamagedFileError as e:
        raise ValueError(f"{path} is {e.reason}") from e
    except OSError as e:
        raise ValueError(f"{path} is no plain file: {e.strerror}") from e


def read_untrusted_json(path: Path, most: int = LARGEST) -> Any:
    """The value in `path`; NaN, infinities and nesting beyond DEEPEST are refused. Raises as `read_bytes`."""
    return strict_json(read_bytes(path, most))


def read_numeric_rows(path: Path, most: int = LARGEST) -> Iterator[dict[str, Any]]:
    """The numbers of each row of a log of JSON lines, NaN among them; torn and foreign lines are skipped.

    Raises as `read_bytes`.
    """
    for line in read_bytes(path, most).decode("utf-8", "replace").splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield numeric_fields(row)


def numeric_fields(row: dict[str, Any]) -> dict[str, Any]:
    """What of a row are numbers that can be worked with."""
    return {name: value for name, value in row.items() if is_plain_number(value)}


def is_plain_number(value: object) -> bool:
    """Whether it is a number, finite or not, and no whole number beyond all use."""
    return type(value) is float or (type(value) is int and abs(value) < LARGEST_NUMBER)


def strict_json(data: bytes) -> Any:
    """Plain JSON with finite numbers and texts that can be written again. Raises ValueError."""
    try:
        value = json.loads(data, parse_constant=_reject_constant, parse_float=_finite_float)
        if data.count(b"[") + data.count(b"{") > DEEPEST and depth_of(value) > DEEPEST:
            raise ValueError("nested too deeply")
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as e:
        raise ValueError("nested too deeply") from e
    return value


def depth_of(value: Any) -> int:
    """How deep lists and objects are nested."""
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        inner, depth = waiting.pop()
        deepest = max(deepest, depth)
        if isinstance(inner, dict | list | tuple):
            parts = inner.values() if isinstance(inner, dict) else inner
            waiting.extend((part, depth + 1) for part in parts if isinstance(part, dict | list | tuple))
    return deepest


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no finite number")
    return value


# Python source as a syntax tree, one thread at a time.

_one = threading.Lock()


def parse_python(source: str, name: str = "<unknown>") -> ast.Module:
    """The tree of a module. Raises SyntaxError.

    CPython counts the depth of all trees under construction in one place: two threads at once end in a SystemError.
    """
    with _one:
        return ast.parse(source, name)


def parse_expression(source: str) -> ast.expr:
    """The tree of one expression. Raises SyntaxError."""
    with _one:
        return ast.parse(source, mode="eval").body
