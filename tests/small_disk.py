"""A limit on file sizes stands for a disk that fills up while it is written on."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Python replaces a compiled file by what it could write of it, and never believes the source again.
NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """No file of this process grows beyond `size` bytes."""
    before, compiled = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = compiled
