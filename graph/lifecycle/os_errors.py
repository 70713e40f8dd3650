"""A broken disk or a missing permission in the orchestrator itself: one line instead of a traceback; the run can go on."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from tuneloop.core.errors import InfrastructureError

OS_ERROR_HINTS = {
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
def naming_os_errors(root: Path) -> Iterator[None]:
    """Turn what the operating system refuses inside into a InfrastructureError that names the file and the cure."""
    try:
        yield
    except OSError as e:
        if e.errno not in OS_ERROR_HINTS:
            raise
        raise InfrastructureError(f"{e.filename or root}: {e.strerror or e}; {OS_ERROR_HINTS[e.errno]}") from e
