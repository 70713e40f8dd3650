"""The door of a web application that is not ours: Host and Origin, token, rate and size, for WebSockets too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from ipaddress import ip_address

from fastmcp.server.http import HostOriginGuardMiddleware
from mcp.server.transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE, RequestBodyLimitMiddleware
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Send

from tuneloop.mcp_servers.web import RateLimit, same

INSIDE = "/noauth"  # langgraph's own calls within the process; no request from outside can have it
HTTP = {"ws": "http", "wss": "https"}


def door(token: str | None, origins: Sequence[str]) -> list[Middleware]:
    """The middleware, outermost first. `origins`: web pages that may call, besides those of this machine."""
    guard = partial(HostOriginGuardMiddleware, allowed_origins=tuple(origins), mode="strict")
    return [
        Middleware(RateLimit),
        Middleware(Checked, guard=guard),
        Middleware(Checked, guard=partial(TokenGuard, token=token)),
        Middleware(RequestBodyLimitMiddleware, DEFAULT_MAX_REQUEST_BODY_SIZE),
    ]


class TokenGuard:
    """Asks for the token where one is set; without one only loopback is served."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request."""
        if self._may_enter(scope):
            await self.app(scope, receive, send)
        elif self.token:
            await PlainTextResponse("Unauthorized", 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
        else:
            await PlainTextResponse("Beyond loopback TUNELOOP_MCP_TOKEN is wanted", 403)(scope, receive, send)

    def _may_enter(self, scope: Message) -> bool:
        headers = Headers(scope=scope)
        if scope["path"] == "/ok" or (scope["method"] == "OPTIONS" and "access-control-request-method" in headers):
            return True  # whether it lives; and what a browser asks before it may send a token
        if not self.token:
            return is_loopback(scope)
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        return any(same(given, self.token) for given in (bearer, headers.get("x-api-key", "")))


class Checked:
    """Passes on what a guard made for HTTP lets through; a WebSocket's handshake is judged like a GET."""

    def __init__(self, app: ASGIApp, guard: partial[HostOriginGuardMiddleware] | partial[TokenGuard]) -> None:
        self.app, self.guard = app, guard
        self._http = guard(app)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request or handshake."""
        if scope["type"] == "lifespan" or scope.get("root_path", "").startswith(INSIDE):
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        elif await self._passes(scope, receive):
            await self.app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _passes(self, scope: Message, receive: Receive) -> bool:
        passed = []

        async def inside(*_: object) -> None:
            passed.append(True)

        async def unsaid(_: Message) -> None:
            """A handshake is refused by closing."""

        asked = {**scope, "type": "http", "method": "GET", "scheme": HTTP.get(scope["scheme"], scope["scheme"])}
        await self.guard(inside)(asked, receive, unsaid)
        return bool(passed)


def is_loopback(scope: Message) -> bool:
    """Whether the connection came in at an address that only this machine can reach."""
    address = (scope.get("server") or ("",))[0]
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
