"""What fastmcp and uvicorn lack for a server that listens on HTTP: a token, a rate limit, time limits."""

from __future__ import annotations

import hmac
import time
from typing import Any

from fastmcp.server.auth import AccessToken, TokenVerifier
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tuneloop.tools.http_protocol import BoundedH11Protocol

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

    def __init__(self, app: ASGIApp, rate: float = RATE, burst: int = BURST) -> None:
        self.app, self.rate, self.burst = app, rate, burst
        self._left, self._seen = float(burst), time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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


def guarded(rate: float = RATE, burst: int = BURST) -> dict[str, Any]:
    """What `FastMCP.run` is told for HTTP: Host and Origin checked, bounded in rate, connections and time.

    Bodies above 4 MiB, headers above 16 KiB and more than 10,000 sessions are refused by the libraries themselves.
    """
    return {
        "host_origin_protection": True,
        "middleware": [Middleware(RateLimit, rate, burst)],
        "uvicorn_config": {
            "http": BoundedH11Protocol,
            "ws": "none",
            "limit_concurrency": CONNECTIONS,
            "proxy_headers": False,
            "server_header": False,
        },
    }
