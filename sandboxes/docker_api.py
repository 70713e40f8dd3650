"""Talks to a Docker or Podman daemon over its unix socket. Standard library only, as all of the supervisor."""

from __future__ import annotations

import json
import socket
from contextlib import suppress

TYPE_CHECKING = False  # typing would be a third of a supervisor's start
if TYPE_CHECKING:
    from typing import Any

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
    """The daemon behind the socket at `place`, spoken to in version `api` of its interface."""

    def __init__(self, place: str, api: str) -> None:
        self.place, self.api = place, api

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
        # HTTP/1.0: an answer is over when the connection is, and comes in one piece.
        head = f"{method} /v{self.api}{path} HTTP/1.0\r\nHost: docker\r\nContent-Type: application/json\r\n"
        answer = self.exchange(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        headers, _, text = answer.partition(b"\r\n\r\n")
        words = headers.split(b" ", 2)
        if len(words) < 3 or not words[1].isdigit():
            raise UnreachableError(f"{self.place}: the daemon went away while it was asked")
        status = int(words[1])
        try:
            given = json.loads(text) if text.strip() else None
        except ValueError as e:
            raise UnreachableError(f"{self.place}: the daemon's answer was cut off") from e
        if status >= 400:
            message = str((given or {}).get("message", f"status {status}")).strip()
            # Podman's word for one that goes at this moment.
            raise RefusedError(404 if "no such container" in message.lower() else status, message)
        return given

    def exchange(self, request: bytes) -> bytes:
        """All bytes of the answer. Raises Unreachable."""
        line = socket.socket(socket.AF_UNIX)
        line.settimeout(SECONDS)
        try:
            line.connect(self.place)
            line.sendall(request)
            pieces = []
            while piece := line.recv(PIECE):
                pieces.append(piece)
        except OSError as e:
            raise UnreachableError(f"{self.place}: {e.strerror or e}") from e
        finally:
            with suppress(OSError):
                line.close()
        return b"".join(pieces)
