"""Landlock rules for a whole job: files, TCP ports, signals and abstract sockets, by what the kernel's release of it can hold."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Collection, Iterable
from functools import cache

from tuneloop.core.errors import InfrastructureError
from tuneloop.sandboxes.process_tree import libc

CREATE_RULESET, ADD_RULE = 444, 445  # numbers of the system calls, the same on every architecture
PATH_BENEATH, NET_PORT = 1, 2  # kinds of rules
# Bits of struct landlock_ruleset_attr.handled_access_fs.
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
SINCE = ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV))  # what came with which release; the first one had the 13 bits below
BIND, CONNECT = 1 << 0, 1 << 1
TCP_SINCE, SCOPES_SINCE = 4, 6
SCOPES = 0b11  # abstract sockets and signals stay inside
EPHEMERAL = "/proc/sys/net/ipv4/ip_local_port_range"


class Attributes(ctypes.Structure):
    """struct landlock_ruleset_attr."""

    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class Beneath(ctypes.Structure):
    """struct landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class Port(ctypes.Structure):
    """struct landlock_net_port_attr."""

    _fields_ = (("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64))


@cache
def kernel_abi() -> int:
    """The kernel's release of Landlock; 0 where there is none, or it may not be asked (EPERM, ENOSYS and EOPNOTSUPP)."""
    return max(0, int(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def file_rights(abi: int) -> int:
    """Every right to files that a release knows."""
    return (1 << 13) - 1 | sum(bit for since, bit in SINCE if abi >= since)


def write_rights(abi: int) -> int:
    """What a job may do below its writable folders: all but devices."""
    return file_rights(abi) & ~(MAKE_CHAR | MAKE_BLOCK)


class Ruleset:
    """What a job may reach, as rules are added. `handle` is the descriptor; who takes it closes it."""

    def __init__(self, abi: int, *, ports: bool) -> None:
        """`ports`: TCP is for rules to say; otherwise no rule is asked. Raises InfrastructureError."""
        self.rights = file_rights(abi)
        size = 8 if abi < TCP_SINCE else 16 if abi < SCOPES_SINCE else 24
        asked = Attributes(self.rights, BIND | CONNECT if ports else 0, SCOPES)
        self.handle = int(libc.syscall(CREATE_RULESET, ctypes.byref(asked), ctypes.c_size_t(size), 0))
        if self.handle < 0:
            raise InfrastructureError(f"landlock: {os.strerror(ctypes.get_errno())}")

    def allow(self, paths: Iterable[str], rights: int) -> None:
        """Allow `rights` at and below each path, and below what it links to. Raises InfrastructureError."""
        for path in paths:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                inside = OF_FILES if not stat.S_ISDIR(os.fstat(handle).st_mode) else -1
                self._add(PATH_BENEATH, Beneath(rights & inside & self.rights, handle), path)
            finally:
                os.close(handle)

    def allow_own_ports(self) -> None:
        """Ports that the kernel gives out, of any machine: a rule names no address. None that services have."""
        with open(EPHEMERAL) as f:  # noqa: PTH123
            first, last = map(int, f.read().split())
        self._add(NET_PORT, Port(BIND, 0), "port 0")
        for port in range(first, last + 1):
            self._add(NET_PORT, Port(BIND | CONNECT, port), f"port {port}")

    def _add(self, kind: int, rule: ctypes.Structure, what: str) -> None:
        if libc.syscall(ADD_RULE, self.handle, kind, ctypes.byref(rule), 0):
            raise InfrastructureError(f"landlock: {what}: {os.strerror(ctypes.get_errno())}")


def around(path: str, closed: Collection[str]) -> list[str]:
    """`path`, or, where something closed lies below it, everything beside that: rules can be added, never taken away.

    Nothing new can be made in the folders between the two.
    """
    if not any(one.startswith(f"{path}/") for one in closed):
        return [] if path in closed else [path]
    with os.scandir(path) as entries:
        beside = [entry.path for entry in entries if not entry.is_symlink()]
    return [place for entry in beside for place in around(entry, closed)]
