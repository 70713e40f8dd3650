"""One HTTP request of a job and its response, over ASGI: bounded in size and time, one per connection.

Nothing of a request's head is passed on, and nothing after its body is read: no second request can be smuggled in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import h11

from tuneloop.tools.llm_proxy.backpressure import Acquire
from tuneloop.tools.llm_proxy.errors import ApiError
from tuneloop.tools.llm_proxy.http_protocol import BoundedH11Protocol

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

HEAD_BYTES = 32 << 10
BODY_BYTES = 8 << 20
BODY_SECONDS = 60.0


class EndpointProtocol(BoundedH11Protocol):
    """Times the head only: a body may have to wait for memory, and `Exchange.read` times its arrival."""

    request_seconds = 10.0
    timed_states = frozenset({h11.IDLE})


@dataclass(frozen=True)
class Request:
    """Method, path without query, bearer token ("" without one), body."""

    method: str
    path: str
    token: str
    body: bytes


class ClientDisconnectError(Exception):
    """The client has left, or does not read its response."""


class Exchange:
    """A request and its response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._disconnect: asyncio.Task[None] | None = None
        self.started = False

    async def read(self, acquire: Acquire) -> Request:
        """The request; `acquire` reserves memory for its body. Raises ApiError or ClientDisconnectError."""
        headers = dict(self._scope["headers"])
        chunked = b"transfer-encoding" in headers  # its length is unknown, whatever Content-Length says
        await acquire(BODY_BYTES if chunked else min(int(headers.get(b"content-length", 0)), BODY_BYTES))
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await self._body()
        except TimeoutError as e:
            raise ApiError(408, "timeout", "the request did not come in time", 1) from e
        self._disconnect = asyncio.create_task(self._wait_for_disconnect())
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        return Request(
            method=self._scope["method"],
            path=self._scope["path"],
            token=token.strip().decode("latin-1") if scheme.lower() == b"bearer" else "",
            body=body,
        )

    async def _body(self) -> bytes:
        """The body. One that is too large is read to its end: a client that still writes would not read the error."""
        body, size, more = bytearray(), 0, True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnectError
            size, more = size + len(message["body"]), message["more_body"]
            if size <= BODY_BYTES:
                body += message["body"]
        if size > BODY_BYTES:
            raise ApiError(413, "too_large", f"a request has at most {BODY_BYTES >> 20} MiB")
        return bytes(body)

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            continue

    @property
    def disconnected(self) -> bool:
        """Whether the client has left since its request was read."""
        return self._disconnect is not None and self._disconnect.done()

    async def respond(self, status: int, body: bytes, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Send a whole JSON response."""
        await self._start(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers])
        await self.end(body)

    async def respond_error(self, error: ApiError) -> None:
        """Send an error, unless a response has started: then the missing end of the stream tells the client."""
        if not self.started:
            await self.respond(error.status, error.body, error.headers)

    async def start_stream(self) -> None:
        """Send the head of a streamed response."""
        await self._start(200, [("Content-Type", "text/event-stream; charset=utf-8")])

    async def send(self, data: bytes) -> None:
        """Send a part of a streamed response. Raises ClientDisconnectError."""
        if self.disconnected:
            raise ClientDisconnectError
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes) -> None:
        """Send the last part; nothing happens when the client has left."""
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def _start(self, status: int, headers: Sequence[tuple[str, str]]) -> None:
        self.started = True
        encoded = [(name.encode(), value.encode()) for name, value in [*headers, ("Connection", "close")]]
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})

    def close(self) -> None:
        """Stop watching the connection."""
        if self._disconnect is not None:
            self._disconnect.cancel()
