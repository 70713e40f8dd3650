"""The HTTP server below every provider and hub of the tests."""

from __future__ import annotations

import socket
from contextlib import suppress
from http.server import ThreadingHTTPServer
from typing import Any


class ClosingServer(ThreadingHTTPServer):
    """Its end is the end of its connections: kept alive, each would hold a thread and a descriptor for ever."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, *args: Any) -> None:
        self.connections: set[socket.socket] = set()
        super().__init__(*args)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self.connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        for connection in tuple(self.connections):
            with suppress(OSError):  # over by itself
                connection.shutdown(socket.SHUT_RDWR)
