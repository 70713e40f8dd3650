"""Disk and permission errors of the orchestrator as one line instead of a traceback; the run can be resumed."""

from __future__ import annotations

import contextlib
import errno
import os
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
    errno.EIO: "check the disk",
    errno.ESTALE: "mount it again",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "close other programs",
    errno.ENOMEM: "free some memory",
    errno.EISDIR: "a folder lies where a file belongs: move it away",
    errno.ENOTDIR: "a file lies where a folder belongs: move it away",
    errno.EEXIST: "something else lies there: move it away",
    errno.ENXIO: "a socket or pipe lies there: move it away",
    errno.ELOOP: "a link leads back to itself: put the file back",
    errno.ENOENT: "put it back",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EBUSY: "another program uses it",
}


@contextlib.contextmanager
def naming_os_errors(root: Path | str) -> Iterator[None]:
    """Turn operating system errors into an InfrastructureError that names the file and the remedy."""
    try:
        yield
    except OSError as e:
        if e.errno not in OS_ERROR_HINTS or e.errno == errno.ENOENT:  # a missing file is a bug of ours here
            raise
        raise InfrastructureError(os_error_line(e, root)) from e


def os_error_line(error: OSError, root: Path | str | None = None) -> str:
    """File, the system's message, and the remedy."""
    name = error.filename or root
    said = error.strerror or " ".join(str(error).split()) or type(error).__name__
    hint = OS_ERROR_HINTS.get(error.errno or 0)
    return (f"{os.fsdecode(name)}: {said}" if isinstance(name, str | bytes | Path) else said) + (
        f"; {hint}" if hint else ""
    )
