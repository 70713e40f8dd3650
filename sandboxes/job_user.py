"""Who jobs are, where root starts them: a user of their own, to whom their writable folders belong."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tuneloop.core.errors import InfrastructureError
from tuneloop.sandboxes.safe_walk import walk_below

JOB_USER = 10001  # uid and gid of jobs that root starts; not otherwise in use


def job_user() -> tuple[int, int]:
    """Uid and gid of a job's processes: the caller's, or the jobs' own where the caller is root."""
    return (os.geteuid(), os.getegid()) if os.geteuid() else (JOB_USER, JOB_USER)


def chown_tree(folders: Iterable[str], user: tuple[int, int]) -> None:
    """Everything below `folders` belongs to `user`; only root can and has to.

    Goes by descriptors and follows no link: a job that runs meanwhile cannot bend it to files outside.
    Raises InfrastructureError where folders are nested without end.
    """
    if os.geteuid():
        return
    for folder in map(os.path.realpath, folders):
        os.chown(folder, *user, follow_symlinks=False)
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            continue
        try:
            for handle, entry in walk_below(folder):
                chown_entry(handle, entry.name, user)
        except OSError as e:
            raise InfrastructureError(f"{folder} cannot be handed over to jobs: {e.strerror}") from e


def chown_entry(handle: int, name: str, user: tuple[int, int]) -> None:
    """One entry of an open folder; what vanishes meanwhile is no error. A file of several names may be another's, too."""
    with suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=handle, follow_symlinks=False)
        shared = found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode)
        if (found.st_uid, found.st_gid) != user and not shared:
            os.chown(name, *user, dir_fd=handle, follow_symlinks=False)


def check_readable(paths: Iterable[str], user: tuple[int, int]) -> None:
    """What a job of another user than us shall read has to be open to it. Looks at each path and what lies in it.

    Only root's jobs are of another user: root in a rootless container is who started it. Raises InfrastructureError with the cure.
    """
    if os.geteuid():
        return
    for path in map(Path, paths):
        for entry in (path, *(path.iterdir() if path.is_dir() else ())):
            with suppress(FileNotFoundError):
                found = entry.stat()
                wanted = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(found.st_mode) else 0)
                if found.st_mode & wanted != wanted and found.st_uid != user[0]:
                    raise InfrastructureError(
                        f"{entry} is closed to jobs, which run as user {user[0]} when root starts them; "
                        f"right is `chmod -R a+rX {path}`, or starting tuneloop as another user than root"
                    )
