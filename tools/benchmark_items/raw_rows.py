"""Read a source's files as the hub has them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from tuneloop.core.records import records

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
CHOSEN = (
    "Read is the letter in the last \\boxed{}, else the one stated last ('answer is X', 'Answer: X', '答案: X'), else the one "
    "said last ('so it is X') or the only one that is a label ('X) ...'). 'Not X' chooses nothing, 'X or Y' neither does, and "
    "the text of an option without its letter is wrong."
)


def read_rows(raw: Path, *patterns: str) -> Iterator[dict[str, Any]]:
    """Rows of all files that fit the patterns, in their names' order. Raises ValueError when none does."""
    for path in find_files(raw, *patterns):
        yield from records(path)


def find_files(raw: Path, *patterns: str) -> list[Path]:
    """Files that fit the patterns. Raises ValueError when none does."""
    found = sorted({path for pattern in patterns for path in raw.glob(pattern) if path.is_file()})
    if not found:
        raise ValueError(f"no file {' or '.join(patterns)} in {raw.name}")
    return found


def read_csv(data: bytes) -> list[dict[str, str]]:
    """Rows of a CSV file with a header, every cell a text as it stands there, trimmed."""
    found = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""))
    return [{name or "": (value or "").strip() for name, value in row.items()} for row in found]


def zip_members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files in an archive, in their names' order."""
    with ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if not name.endswith("/"):
                yield name, archive.read(name)


def lettered_options(options: Iterable[str], mark: str = ")") -> str:
    """The options of a question, a line each, behind letters from A on."""
    return "\n".join(f"{letter}{mark} {text.strip()}" for letter, text in zip(LETTERS, options, strict=False))
