"""One connection of a job: one request in, one answer out, each within its time and size; then it is closed.

Nothing of a request's head is passed on, and nothing behind its body is ever read: there is nothing to smuggle into.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

import h11

from tuneloop.tools.llm_proxy.backpressure import Acquire
from tuneloop.tools.llm_proxy.errors import ApiError

HEAD_BYTES = 32 << 10
BODY_BYTES = 8 << 20
HEAD_SECONDS, BODY_SECONDS, WRITE_SECONDS, LINGER_SECONDS = 10.0, 60.0, 60.0, 1.0
PIECE = 1 << 16


@dataclass(frozen=True)
class Request:
    """Method, path without query, bearer token ("" without one), body."""

    method: str
    path: str
    token: str
    body: bytes


class ClientDisconnectError(Exception):
    """The client has left, or takes nothing any more."""


class Exchange:
    """The server's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._talk = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self._silent = False
        self.started = False

    async def read(self, acquire: Acquire) -> Request:
        """The whole request; `acquire` reserves memory for its body. Raises ApiError or ClientDisconnectError."""
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await self._event()
            if not isinstance(head, h11.Request):
                raise ClientDisconnectError
            self._silent = head.method == b"HEAD"
            fields = dict(head.headers)
            unsaid = BODY_BYTES if b"transfer-encoding" in fields else 0
            await acquire(min(int(fields.get(b"content-length", unsaid)), BODY_BYTES))
            async with asyncio.timeout(BODY_SECONDS):
                body = await self._body()
        except TimeoutError as e:
            raise ApiError(408, "timeout", "the request did not come in time", 1) from e
        except h11.RemoteProtocolError as e:
            raise ApiError(e.error_status_hint, "bad_request", f"this is no HTTP request: {e}") from e
        kind, _, token = fields.get(b"authorization", b"").partition(b" ")
        return Request(
            method=head.method.decode("ascii"),
            path=head.target.decode("ascii").partition("?")[0],
            token=token.strip().decode("latin-1") if kind.lower() == b"bearer" else "",
            body=body,
        )

    async def _body(self) -> bytes:
        body = bytearray()
        while True:
            event = await self._event()
            if isinstance(event, h11.Data):
                body += event.data
                if len(body) > BODY_BYTES:
                    raise ApiError(413, "too_large", f"a request has at most {BODY_BYTES >> 20} MiB")
            elif isinstance(event, h11.EndOfMessage):
                return bytes(body)
            else:
                raise ClientDisconnectError

    async def _event(self) -> h11.Event | type[h11.PAUSED]:
        while (event := self._talk.next_event()) is h11.NEED_DATA:
            if self._talk.they_are_waiting_for_100_continue:
                self._put(h11.InformationalResponse(status_code=100, headers=[]))
            try:
                data = await self._reader.read(PIECE)
            except OSError as e:
                raise ClientDisconnectError from e
            self._talk.receive_data(data)
        return event  # type: ignore[return-value]

    @property
    def disconnected(self) -> bool:
        """Whether the client hung up while it waited for its turn."""
        return self._reader.at_eof()

    async def respond(self, status: int, body: bytes, headers: list[tuple[str, str]] | None = None) -> None:
        """A whole answer. Raises ClientDisconnectError."""
        given = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), ("Connection", "close")]
        self._head(status, [*given, *(headers or [])])
        await self.end(b"" if self._silent else body)

    async def start_stream(self) -> None:
        """The head of a streamed answer. Raises ClientDisconnectError."""
        self._head(200, [("Content-Type", "text/event-stream; charset=utf-8"), ("Connection", "close")])
        await self._flush()

    async def send(self, data: bytes) -> None:
        """A piece of a streamed answer. Raises ClientDisconnectError."""
        if data:
            self._put(h11.Data(data=data))
            await self._flush()

    async def end(self, last: bytes = b"") -> None:
        """The last piece; nothing more comes. Raises ClientDisconnectError."""
        if last:
            self._put(h11.Data(data=last))
        self._put(h11.EndOfMessage())
        await self._flush()

    def _head(self, status: int, headers: list[tuple[str, str]]) -> None:
        self.started = True
        self._put(h11.Response(status_code=status, headers=headers))

    def _put(self, event: h11.Event) -> None:
        data = self._talk.send(event)
        if data:
            self._writer.write(data)

    async def _flush(self) -> None:
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await self._writer.drain()
        except (OSError, TimeoutError) as e:
            self._writer.transport.abort()
            raise ClientDisconnectError from e

    async def close(self) -> None:
        """Let the client read what was said before what it still sends is answered with a reset."""
        with contextlib.suppress(OSError, TimeoutError, RuntimeError):
            async with asyncio.timeout(LINGER_SECONDS):
                self._writer.write_eof()
                while await self._reader.read(PIECE):
                    continue
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await self._writer.wait_closed()
