"""Talks to a Docker or Podman daemon over its unix socket.

Standard library only, as all of the supervisor: a job's start would wait 0.2 s of CPU for Docker's SDK.
"""

from __future__ import annotations

import json
import socket
from contextlib import suppress

TYPE_CHECKING = False  # typing would be a third of a supervisor's start
if TYPE_CHECKING:
    from typing import Any, BinaryIO

SECONDS = 60.0  # an answer may take on a busy machine
PIECE = 1 << 16


class UnreachableError(Exception):
    """The daemon is not there, does not let us in, or went away while it was asked."""


class RefusedError(Exception):
    """The daemon answered no; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class DockerApi:
    """The daemon behind the socket at `place`, spoken to in version `api` of its interface, "" its own.

    `seconds`: for an answer, from one piece to the next.
    """

    def __init__(self, place: str, api: str = "", seconds: float = SECONDS) -> None:
        self.place, self.api, self.seconds = place, api, seconds

    def create(self, name: str, config: dict[str, Any]) -> None:
        """A container that is not started yet; one of that name goes first. Raises Refused, Unreachable."""
        self.remove(name)
        self.ask("POST", f"/containers/create?name={name}", config)

    def start(self, name: str) -> None:
        """Start it; one that runs is left alone. Raises Refused, Unreachable."""
        self.ask("POST", f"/containers/{name}/start")

    def state(self, name: str) -> dict[str, Any] | None:
        """`Status`, `Pid` and more; None when there is no such container. Raises Refused, Unreachable."""
        try:
            return dict(self.ask("GET", f"/containers/{name}/json")["State"])
        except RefusedError as e:
            if e.status == 404:
                return None
            raise

    def remove(self, name: str) -> None:
        """End it and everything of it; one that is gone or going is no error. Raises Refused, Unreachable."""
        try:
            self.ask("DELETE", f"/containers/{name}?force=1&v=1")
        except RefusedError as e:
            if e.status not in (404, 409):
                raise

    def has_image(self, image: str) -> bool:
        """Whether it lies there; nothing is ever pulled. Raises Refused, Unreachable."""
        try:
            self.ask("GET", f"/images/{image}/json")
        except RefusedError as e:
            if e.status == 404:
                return False
            raise
        return True

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer's JSON, None when it is empty. Raises Refused, Unreachable."""
        content = b"" if body is None else json.dumps(body).encode()
        text = self.exchange(self.head(method, path, "application/json", len(content)) + content)
        return self.parse(text) if text.strip() else None

    def send_tar(self, path: str, tar: BinaryIO) -> list[dict[str, Any]]:
        """POST a tar file; what the daemon told of its work. Raises Refused, also where the work failed, and Unreachable."""
        size = tar.seek(0, 2)
        tar.seek(0)
        text = self.exchange(self.head("POST", path, "application/x-tar", size), tar)
        told = [self.parse(row) for row in text.splitlines() if row.strip()]
        for row in told:
            if "error" in row:
                raise RefusedError(500, str(row["error"]).strip())
        return told

    def head(self, method: str, path: str, kind: str, size: int) -> bytes:
        """Of a request. HTTP/1.0: an answer is over when the connection is, and comes in one piece."""
        version = f"/v{self.api}" if self.api else ""
        head = f"{method} {version}{path} HTTP/1.0\r\nHost: docker\r\nContent-Type: {kind}\r\n"
        return f"{head}Content-Length: {size}\r\n\r\n".encode()

    def parse(self, text: bytes) -> Any:
        """JSON. Raises Unreachable."""
        try:
            return json.loads(text)
        except ValueError as e:
            raise UnreachableError(f"{self.place}: the daemon's answer was cut off") from e

    def exchange(self, request: bytes, body: BinaryIO | None = None) -> bytes:
        """The answer's body. Raises Refused, Unreachable."""
        headers, _, text = self.transfer(request, body).partition(b"\r\n\r\n")
        words = headers.split(b" ", 2)
        if len(words) < 3 or not words[1].isdigit():
            raise UnreachableError(f"{self.place}: the daemon went away while it was asked")
        status = int(words[1])
        if status >= 400:
            given = self.parse(text) if text.strip() else {}
            message = str(given.get("message", f"status {status}")).strip()
            # Podman's word for one that goes at this moment.
            raise RefusedError(404 if "no such container" in message.lower() else status, message)
        return text

    def transfer(self, request: bytes, body: BinaryIO | None) -> bytes:
        """All bytes of the answer. Raises Unreachable."""
        line = socket.socket(socket.AF_UNIX)
        line.settimeout(self.seconds)
        try:
            line.connect(self.place)
            with suppress(BrokenPipeError, ConnectionResetError):  # a daemon that refuses does not read to the end
                line.sendall(request)
                if body is not None:
                    line.sendfile(body)
            pieces = []
            with suppress(ConnectionResetError):  # how it ends where the padding of a tar file was not read
                while piece := line.recv(PIECE):
                    pieces.append(piece)
        except OSError as e:
            raise UnreachableError(f"{self.place}: {e.strerror or e}") from e
        finally:
            with suppress(OSError):
                line.close()
        return b"".join(pieces)
