"""A thread with a network, mounts, a host name and memory segments of its own: what is attacked from there stays there."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from .declare import call, checked, libc
from .network import METADATA

NEW = 0x40000000 | 0x04000000 | 0x08000000 | 0x00020000  # CLONE_NEWNET, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWNS
PRIVATE = 0x4000 | 0x40000  # MS_REC, MS_PRIVATE
SET_ADDRESS, SET_FLAGS, UP = 0x8916, 0x8914, 0x41
JOIN = 1  # KEYCTL_JOIN_SESSION_KEYRING
P = ParamSpec("P")
T = TypeVar("T")


class Lonely:
    """Runs functions in that thread; processes that they start live there too. Needs root."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1, initializer=alone)

    def do(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Its result."""
        return self.thread.submit(work, *args, **kwargs).result()

    def close(self) -> None:
        """The network goes with the thread."""
        self.thread.shutdown()


def alone() -> None:
    """Leave everything shared; loopback comes up, the metadata address is one of its own."""
    checked(libc.unshare(NEW), "unshare: the hostile suite needs root")
    checked(libc.mount(None, b"/", None, PRIVATE, None), "mount")
    call("keyctl", JOIN, None)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        fcntl.ioctl(line, SET_FLAGS, struct.pack("16sh14x", b"lo", UP))
        address = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(METADATA))
        fcntl.ioctl(line, SET_ADDRESS, struct.pack("16s16s", b"lo:1", address))


def add_key(name: bytes, secret: bytes) -> None:
    """Into the session's keyring."""
    call("add_key", b"user", name, ctypes.c_char_p(secret), len(secret), -3)
