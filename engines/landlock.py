"""An allow-list of folders for the process that asks for it and all its children, kept by the kernel (Landlock)."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # numbers of the system calls, the same on every architecture
PATH_BENEATH = 1
NO_NEW_PRIVS = 38
# Bits of struct landlock_ruleset_attr.handled_access_fs.
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE = 1 << 13, 1 << 14
READ = EXECUTE | READ_FILE | READ_DIR
MAKE = sum(1 << bit for bit in range(4, 13))
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
SCOPES = 0b11  # abstract sockets and signals stay inside

# What the sandboxes show to every job besides what it lists.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/proc", "/sys")
SYSTEM += ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SHARED_MEMORY = "/dev/shm"  # noqa: S108
GPU_DEVICES = ("nvidia*", "dxg", "kfd", "dri")

libc = ctypes.CDLL(None, use_errno=True)


class Missing(Exception):  # noqa: N818 - a reason to start cold
    """The kernel cannot do it, or a path is not visible here."""


class Attributes(ctypes.Structure):
    """struct landlock_ruleset_attr."""

    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class Beneath(ctypes.Structure):
    """struct landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """The kernel's Landlock ABI; -1 without one."""
    return int(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1))


def allow(read: Iterable[str], write: Iterable[str], *, shared_memory: bool = True) -> int:
    """A descriptor of a ruleset that allows these paths and the system's, /dev/shm if asked for. Raises Missing."""
    abi = version()
    if abi < 2:  # the first one forbids to rename from folder to folder
        raise Missing("the kernel has no Landlock, or one too old")
    everything = READ | WRITE_FILE | MAKE | REFER | (TRUNCATE if abi >= 3 else 0)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    asked = Attributes(everything, 0, SCOPES)
    ruleset = libc.syscall(CREATE_RULESET, ctypes.byref(asked), ctypes.c_size_t(size), 0)
    if ruleset < 0:
        raise Missing(f"landlock: {os.strerror(ctypes.get_errno())}")
    gpus = [str(path) for pattern in GPU_DEVICES for path in Path("/dev").glob(pattern)]
    for path in filter(os.path.exists, SYSTEM):
        add(ruleset, path, READ)
    for path in filter(os.path.exists, (*DEVICES, *gpus)):
        add(ruleset, path, everything)
    if shared_memory and Path(SHARED_MEMORY).exists():
        add(ruleset, SHARED_MEMORY, everything & ~READ_DIR)  # names are random: siblings' cannot be listed, nor guessed
    for path in read:
        add(ruleset, path, READ)
    for path in write:
        add(ruleset, path, everything)
    return int(ruleset)


def add(ruleset: int, path: str, allowed: int) -> None:
    """Allow `allowed` at and below `path`. Raises Missing when it is not there."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as e:
        raise Missing(f"{path} is not visible to the worker: {e.strerror}") from e
    try:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            allowed &= OF_FILES
        rule = Beneath(allowed, handle)
        if libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), 0):
            raise Missing(f"landlock: {path}: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(handle)


def restrict(ruleset: int) -> None:
    """From here on, for ever. Raises OSError."""
    if libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) or libc.syscall(RESTRICT_SELF, ruleset, 0):
        raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    os.close(ruleset)
