"""What stands before a server that listens on HTTP, where fastmcp and uvicorn leave it open: token, rate, patience."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import h11
from fastmcp.server.auth import AccessToken, TokenVerifier
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

PATIENCE = 20.0  # seconds until a request that began has to be there whole
CONNECTIONS = 200
RATE, BURST = 100.0, 400  # requests a second, and at once after a quiet while


def same(given: str, wanted: str) -> bool:
    """Whether two secrets are equal, in a time that says nothing about where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), wanted.encode())


class OneToken(TokenVerifier):
    """Accepts the one token of this machine's servers."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    async def verify_token(self, token: str) -> AccessToken | None:
        """Who it is, or None."""
        return AccessToken(token=token, client_id="tuneloop", scopes=[]) if same(token, self._token) else None


class RateLimit:
    """A bucket of `burst` requests that fills by `rate` a second; beyond it 429."""

    def __init__(self, app: App, rate: float = RATE, burst: int = BURST) -> None:
        self.app, self.rate, self.burst = app, rate, burst
        self._left, self._seen = float(burst), time.monotonic()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and not self._taken():
            await PlainTextResponse("Too many requests", 429, {"Retry-After": "1"})(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _taken(self) -> bool:
        now = time.monotonic()
        self._left = min(float(self.burst), self._left + (now - self._seen) * self.rate)
        self._seen = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Impatient(H11Protocol):
    """uvicorn's HTTP/1.1; a connection whose request does not come whole in `PATIENCE` seconds is cut."""

    _cut: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The first request is waited for."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._watch()

    def data_received(self, data: bytes) -> None:
        """A part of a request, or all of it."""
        super().data_received(data)
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Garbage; behind a request that is still being answered the connection is cut, a second answer has no place."""
        if self.cycle is None or self.cycle.response_complete:
            super().send_400_response(msg)
        else:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._calm()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.conn.their_state not in {h11.IDLE, h11.SEND_BODY}:
            self._calm()
        elif self._cut is None:
            self._cut = self.loop.call_later(PATIENCE, self.transport.abort)

    def _calm(self) -> None:
        if self._cut is not None:
            self._cut.cancel()
            self._cut = None


def guarded(rate: float = RATE, burst: int = BURST) -> dict[str, Any]:
    """What `FastMCP.run` is told for HTTP: Host and Origin checked, bounded in rate, connections and time.

    Bodies above 4 MiB, headers above 16 KiB and more than 10,000 sessions are refused by the libraries themselves.
    """
    return {
        "host_origin_protection": True,
        "middleware": [Middleware(RateLimit, rate, burst)],
        "uvicorn_config": {
            "http": Impatient,
            "ws": "none",
            "limit_concurrency": CONNECTIONS,
            "proxy_headers": False,
            "server_header": False,
        },
    }
