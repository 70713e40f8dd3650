"""The door of a web application that is not ours: Host and Origin, token, rate and size, for WebSockets too."""

from __future__ import annotations

import hmac
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Any

import fastmcp
from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp.server.http import HostOriginGuardMiddleware
from mcp.server.transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE, RequestBodyLimitMiddleware
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tuneloop.tools.llm_proxy.http_protocol import BoundedH11Protocol

# What fastmcp and uvicorn lack for a server that listens on HTTP: a token, a rate limit, time limits.

CONNECTIONS = 200
BURST_SECONDS = 2  # after a quiet while so many seconds' worth of requests may come at once


def constant_time_equal(given: str, wanted: str) -> bool:
    """Whether two secrets are equal, in a time that says nothing about where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), wanted.encode())


class SingleTokenVerifier(TokenVerifier):
    """Accepts the one token of this machine's servers."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    async def verify_token(self, token: str) -> AccessToken | None:
        """Who it is, or None."""
        return (
            AccessToken(token=token, client_id="tuneloop", scopes=[])
            if constant_time_equal(token, self._token)
            else None
        )


class RateLimit:
    """A bucket that fills by `rate` requests a second, 0 for no limit; beyond it 429 with Retry-After.

    Requests over loopback are not counted: who can send those is this machine's user.
    """

    def __init__(self, app: ASGIApp, rate: float) -> None:
        self.app, self.rate, self.burst = app, rate, max(1.0, rate * BURST_SECONDS)
        self._left, self._seen = self.burst, time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        limited = scope["type"] == "http" and not is_loopback(scope) and not is_inside(scope)
        if self.rate and limited and (seconds := self._take_token()):
            await PlainTextResponse("Too many requests", 429, {"Retry-After": str(seconds)})(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _take_token(self) -> int:
        """0, or the whole seconds after which there is a token again."""
        now = time.monotonic()
        self._left = min(self.burst, self._left + (now - self._seen) * self.rate)
        self._seen = now
        if self._left < 1:
            return math.ceil((1 - self._left) / self.rate)
        self._left -= 1
        return 0


def http_options(token: str | None, rate: float) -> dict[str, Any]:
    """What `FastMCP.run` is told for HTTP: Host, Origin and type of body checked, bounded in rate, connections and time.

    `rate`: requests a second beyond loopback, 0 for no limit.
    Bodies above 4 MiB, headers above 16 KiB and more than 10,000 sessions are refused by the libraries themselves.
    """
    return {
        "host_origin_protection": True,
        "middleware": [
            Middleware(RateLimit, rate),
            Middleware(OriginGuard, origins=fastmcp.settings.http_allowed_origins or (), token=token),
            Middleware(JsonOnly),
        ],
        "uvicorn_config": {
            "http": BoundedH11Protocol,
            "ws": "none",
            "limit_concurrency": CONNECTIONS,
            "proxy_headers": False,
            "server_header": False,
        },
    }


INSIDE = "/noauth"  # langgraph's own calls within the process; no request from outside can have it
HTTP = {"ws": "http", "wss": "https"}
Guarded = Callable[[Message, Receive, Send], Awaitable[None]]


def middleware(token: str | None, origins: Sequence[str], rate: float) -> list[Middleware]:
    """The middleware, outermost first. `origins`: web pages that may call without a token, besides the server's own."""
    guard = partial(HostOriginGuardMiddleware, allowed_origins=tuple(origins), mode="strict")
    return [
        Middleware(RateLimit, rate),
        Middleware(CheckedApp, guard=guard),
        Middleware(CheckedApp, guard=partial(OriginGuard, origins=tuple(origins), token=token)),
        Middleware(CheckedApp, guard=partial(TokenGuard, token=token)),
        Middleware(CheckedApp, guard=JsonOnly),
        Middleware(RequestBodyLimitMiddleware, DEFAULT_MAX_REQUEST_BODY_SIZE),
    ]


def own_pages_only(hosts: Sequence[str]) -> list[Middleware]:
    """Middleware for an application with pages of its own, which alone may call it. `hosts`: names beyond loopback."""
    return [
        Middleware(HostOriginGuardMiddleware, allowed_hosts=tuple(hosts), allowed_origins=(), mode="strict"),
        Middleware(OriginGuard, origins=(), token=None),
    ]


def has_token(headers: Headers, token: str) -> bool:
    """Whether a request brings the token, as a bearer or as LangGraph's clients send a key."""
    bearer = headers.get("authorization", "").removeprefix("Bearer ")
    return any(constant_time_equal(given, token) for given in (bearer, headers.get("x-api-key", "")))


def is_preflight(scope: Message, headers: Headers) -> bool:
    """What a browser asks before it sends a page's request."""
    return scope["method"] == "OPTIONS" and "access-control-request-method" in headers


def is_embedded(headers: Headers) -> bool:
    """Whether a page of another origin asks without naming it. A link that a person follows is no such request."""
    site, mode, place = (headers.get(f"sec-fetch-{name}", "") for name in ("site", "mode", "dest"))
    return site not in ("", "none", "same-origin") and not (mode == "navigate" and place == "document")


class OriginGuard:
    """Answers the server's own pages and those of `origins`; any other page of this machine only with the token.

    Another port of loopback is another program, and its pages are not ours: a development server, a notebook, anything.
    Pages of other machines are refused before, by Host and Origin. What is no browser sends no Origin. Nor does a browser
    for a picture, a script or a GET whose answer the page cannot read: of these it says the site that they come from.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str], token: str | None) -> None:
        self.app, self.origins, self.token = app, frozenset(map(plain_origin, origins)), token

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or self._is_allowed(scope):
            await self.app(scope, receive, send)
        else:
            await PlainTextResponse("Forbidden Origin", 403)(scope, receive, send)

    def _is_allowed(self, scope: Message) -> bool:
        headers = Headers(scope=scope)
        own = plain_origin(f"{scope['scheme']}://{headers.get('host', '')}")
        foreign = [page for page in map(plain_origin, headers.getlist("origin")) if page not in {own, *self.origins}]
        if not foreign and ("origin" in headers or not is_embedded(headers)):
            return True
        return self.token is not None and (is_preflight(scope, headers) or has_token(headers, self.token))


def plain_origin(origin: str) -> str:
    """In one spelling: lower case, without the port that its scheme has anyway."""
    scheme, _, place = origin.strip().lower().partition("://")
    return f"{scheme}://{place.removesuffix({'http': ':80', 'https': ':443'}.get(scheme, '/'))}"


class JsonOnly:
    """Refuses bodies that say to be anything but JSON with 415: those a page may send anywhere without being asked."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or is_json_or_empty(scope["method"], Headers(scope=scope)):
            await self.app(scope, receive, send)
        else:
            await PlainTextResponse("Right is Content-Type: application/json", 415)(scope, receive, send)


def is_json_or_empty(method: str, headers: Headers) -> bool:
    """Whether a request has no body, or one that is declared as plain UTF-8 JSON, once."""
    types = headers.getlist("content-type")
    if "content-encoding" in headers:
        return False
    if not types:
        return headers.get("content-length", "0").strip() == "0" and "transfer-encoding" not in headers
    if method in ("GET", "HEAD", "OPTIONS") and "content-length" not in headers and "transfer-encoding" not in headers:
        return True
    kind, *parameters = (part.strip().lower() for part in ",".join(types).split(";"))
    return kind == "application/json" and all(
        part.replace('"', "") in ("", "charset=utf-8", "charset=utf8") for part in parameters
    )


class TokenGuard:
    """Asks for the token where one is set; without one only loopback is served."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request."""
        if self._is_allowed(scope):
            await self.app(scope, receive, send)
        elif self.token:
            await PlainTextResponse("Unauthorized", 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
        else:
            await PlainTextResponse("TUNELOOP_MCP_TOKEN is required on addresses other than loopback", 403)(
                scope, receive, send
            )

    def _is_allowed(self, scope: Message) -> bool:
        headers = Headers(scope=scope)
        if scope["path"] == "/ok" or is_preflight(scope, headers):
            return True  # whether it lives; and what a browser asks before it may send a token
        return has_token(headers, self.token) if self.token else is_loopback(scope)


class CheckedApp:
    """Passes on what a guard made for HTTP lets through; a WebSocket's handshake is judged like a GET."""

    def __init__(self, app: ASGIApp, guard: Callable[[ASGIApp], Guarded]) -> None:
        self.app, self.guard = app, guard
        self._http = guard(app)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request or handshake."""
        if scope["type"] == "lifespan" or is_inside(scope):
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        elif await self._is_let_through(scope, receive):
            await self.app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _is_let_through(self, scope: Message, receive: Receive) -> bool:
        passed = []

        async def inside(*_: object) -> None:
            passed.append(True)

        async def unsaid(_: Message) -> None:
            """A handshake is refused by closing."""

        asked = {**scope, "type": "http", "method": "GET", "scheme": HTTP.get(scope["scheme"], scope["scheme"])}
        await self.guard(inside)(asked, receive, unsaid)
        return bool(passed)


def is_inside(scope: Scope) -> bool:
    """Whether it is one of langgraph's own calls within the process."""
    return str(scope.get("root_path", "")).startswith(INSIDE)


def is_loopback(scope: Message) -> bool:
    """Whether the connection came in at an address that only this machine can reach."""
    return is_loopback_address((scope.get("server") or ("",))[0])


def is_loopback_address(address: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
