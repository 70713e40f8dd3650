"""A broken disk or a missing permission in the orchestrator itself: one line instead of a traceback; the run can go on."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from tuneloop.core.errors import WorldError

CURES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space or ask for a larger quota",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f)",
    errno.EROFS: "make it writable or move FT_FILE_PATH",
    errno.EACCES: "make it writable or move FT_FILE_PATH",
    errno.EPERM: "make it writable or move FT_FILE_PATH",
    errno.EIO: "look at the disk",
    errno.ESTALE: "mount it again",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "close other programs",
    errno.ENOMEM: "free some memory",
}


@contextlib.contextmanager
def named(root: Path) -> Iterator[None]:
    """Turn what the operating system refuses inside into a WorldError that names the file and the cure."""
    try:
        yield
    except OSError as e:
        if e.errno not in CURES:
            raise
        raise WorldError(f"{e.filename or root}: {e.strerror or e}; {CURES[e.errno]}") from e
