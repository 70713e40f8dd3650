"""Files of data are read by their names: `datasets` takes `*`, `?` and `[` in a path for a pattern, and `$NAME` for a variable."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from datasets import data_files
from datasets.utils import file_utils

resolve_pattern = data_files.resolve_pattern


def take_paths_literally() -> None:
    """From here on, in this process: a folder may be called `[2024] a*b $HOME`."""
    data_files.resolve_pattern = resolve_file
    file_utils.relative_to_absolute_path = absolute


def resolve_file(pattern: str, *args: Any, **kwargs: Any) -> list[str]:
    """The file of that name; where there is none, those that a pattern stands for. Raises FileNotFoundError."""
    return [pattern] if os.path.isfile(pattern) else resolve_pattern(pattern, *args, **kwargs)  # noqa: PTH113


def absolute(path: Any) -> Any:
    """The path from the root, of the same type; variables stay what they are."""
    found = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111
    return Path(found) if isinstance(path, Path) else found
