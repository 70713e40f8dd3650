"""Runs a script that can make no socket: `python handed_socket.py SCRIPT ARGUMENT...` gives it connections to its models.

The supervisor opened a pair of sockets and handed one end down (its descriptor stands in TUNELOOP_ENDPOINT); it answers each byte
with a connection. Here a TCP socket of Python is one end of a pair until it connects to the address in OPENAI_BASE_URL: then
it becomes such a connection. So every client that is written in Python works. Standard library only.
"""

from __future__ import annotations

import errno
import os
import runpy
import socket
import sys
import threading
from typing import Any

HOST, PORT = "127.0.0.1", 9  # nobody listens there: it is a name
OPTIONS_OF_TCP = (socket.IPPROTO_TCP, socket.SOL_SOCKET)
TURN = threading.Lock()


def take_connection(asked: int) -> int:
    """A descriptor of a new connection. Raises OSError."""
    with TURN, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=os.dup(asked)) as line:
        line.send(b"c")
        _, handles, _, _ = socket.recv_fds(line, 1, 1)
    if not handles:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "the models' proxy does not answer")
    return handles[0]


class HandedSocket(socket.socket):
    """A socket whose TCP is handed down."""

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:  # noqa: A002
        if fileno is None and family in (-1, socket.AF_INET) and type in (-1, socket.SOCK_STREAM):
            one, other = os_socketpair()
            other.close()
            super().__init__(socket.AF_UNIX, socket.SOCK_STREAM, 0, one.detach())
            self.settimeout(socket.getdefaulttimeout())
        else:
            super().__init__(family, type, proto, fileno)

    def connect(self, address: Any) -> None:
        """To the models, and nowhere else. Raises OSError."""
        if address[:2] != (HOST, PORT):
            raise PermissionError(errno.EACCES, f"this job has no network: {address} cannot be reached")
        timeout, handle = self.gettimeout(), take_connection(int(os.environ["TUNELOOP_ENDPOINT"]))
        os.dup2(handle, self.fileno(), inheritable=False)
        os.close(handle)
        self.settimeout(timeout)

    def connect_ex(self, address: Any) -> int:
        """As `connect`; the errno."""
        try:
            self.connect(address)
        except OSError as e:
            return e.errno or errno.EACCES
        return 0

    def setsockopt(self, *words: Any) -> None:
        """What is asked of TCP means nothing here."""
        if words[0] not in OPTIONS_OF_TCP:
            super().setsockopt(*words)

    def getpeername(self) -> Any:
        """As the client named it."""
        return HOST, PORT


os_socketpair = socket.socketpair


def resolve(host: Any, port: Any, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
    """Numbers only: there is nobody to ask for names. Raises socket.gaierror."""
    if host not in (HOST, HOST.encode()):
        raise socket.gaierror(socket.EAI_NONAME, f"this job has no network: {host} cannot be found")
    return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (HOST, int(port)))]


def main(script: str) -> None:
    """Become the script."""
    socket.socket = HandedSocket  # type: ignore[misc]
    socket.getaddrinfo = resolve
    sys.argv[:] = sys.argv[1:]
    if sys.flags.safe_path:
        sys.path[:] = [place for place in sys.path if place != os.path.dirname(os.path.abspath(__file__))]  # noqa: PTH100, PTH120
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(script))  # noqa: PTH100, PTH120
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1])
