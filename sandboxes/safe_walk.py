"""What lies below a folder that a job may change at the same moment: by descriptors, so that no link leads elsewhere.

Standard library only, as all of the supervisor.
"""

# pathlib would be a third of a supervisor's start.
# ruff: noqa: PTH116

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False  # typing and collections would be a third of a supervisor's start
if TYPE_CHECKING:
    from collections.abc import Iterator

LOOK = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
DEEPEST = 128  # folders in folders: each costs two descriptors
ENTRY = 4096  # bytes that a name counts for at least: empty files and folders fill a disk too
BOUNDLESS = 1 << 62  # bytes of what nobody can count


def walk_below(folder: str) -> Iterator[tuple[int, os.DirEntry[str]]]:
    """Every entry with a descriptor of the folder it is in; what vanishes meanwhile is left out.

    Raises OSError where nobody can look: ENAMETOOLONG for a tree deeper than DEEPEST.
    """
    handles = [os.open(folder, LOOK)]
    try:
        open_lists = [os.scandir(handles[0])]
        while open_lists:
            entry = next(open_lists[-1], None)
            if entry is None:
                open_lists.pop().close()
                os.close(handles.pop())
                continue
            yield handles[-1], entry
            if entry.is_dir(follow_symlinks=False) and (handle := open_folder(entry, handles)) is not None:
                handles.append(handle)
                open_lists.append(os.scandir(handle))
    finally:
        for handle in handles:
            os.close(handle)


def open_folder(entry: os.DirEntry[str], handles: list[int]) -> int | None:
    """A descriptor of this folder in the last of `handles`; None when it is none any more, or closed to us by others.

    Raises OSError.
    """
    if len(handles) > DEEPEST:
        raise OSError(errno.ENAMETOOLONG, "folders are nested too deeply")
    try:
        return os.open(entry.name, LOOK | os.O_NOFOLLOW, dir_fd=handles[-1])
    except PermissionError:
        if entry.stat(follow_symlinks=False).st_uid == os.geteuid():
            raise
        return None
    except OSError as e:
        if e.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


def disk_usage(folders: list[str], pids: list[int]) -> int:
    """Bytes below `folders`, and of nameless files there that the processes hold open.

    What vanishes meanwhile is not counted; where its owner hides something from us, BOUNDLESS.
    """
    total = 0
    for folder in folders:
        try:
            least = inode_share(folder)
            total += sum(entry_size(entry, least) for _, entry in walk_below(folder))
        except FileNotFoundError:
            continue
        except OSError:
            return BOUNDLESS
    return total + unlinked_bytes(folders, pids)


def inode_share(folder: str) -> int:
    """Bytes that one file stands for on the folder's disk: who keeps to his bytes leaves the inodes of others alone."""
    found = os.statvfs(folder)
    return max(ENTRY, found.f_blocks * found.f_frsize // found.f_files if found.f_files else 0)


def entry_size(entry: os.DirEntry[str], least: int) -> int:
    """Bytes of one entry, at least `least`; 0 when it is gone."""
    try:
        return max(file_size(entry.stat(follow_symlinks=False)), least)
    except OSError:
        return 0


def file_size(found: os.stat_result) -> int:
    """Bytes on disk or to a reader, whichever is more: holes cost whoever reads, hashes or copies the file."""
    return max(found.st_blocks * 512, found.st_size if stat.S_ISREG(found.st_mode) else 0)


def unlinked_bytes(folders: list[str], pids: list[int]) -> int:
    """Bytes of files without a name on the folders' disks that these processes have open."""
    disks = {os.stat(folder).st_dev for folder in folders if os.path.isdir(folder)}  # noqa: PTH112
    found: dict[tuple[int, int], int] = {}
    for pid in pids:
        try:
            with os.scandir(f"/proc/{pid}/fd") as handles:
                for handle in handles:
                    facts = handle.stat()
                    if facts.st_dev in disks and not facts.st_nlink and stat.S_ISREG(facts.st_mode):
                        found[facts.st_dev, facts.st_ino] = file_size(facts)
        except OSError:
            continue
    return sum(found.values())
