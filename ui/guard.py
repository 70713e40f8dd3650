"""Who may see the page: Host and Origin are checked, a cookie is wanted that only the printed link sets, nothing foreign loads."""

from __future__ import annotations

import secrets
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tuneloop.core.files import digest
from tuneloop.mcp_servers.middleware import constant_time_equal, own_pages_only

LOGIN = "/login"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer a browser calls the origin of the page's own forms null
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def guards(token: str, hosts: tuple[str, ...]) -> list[Middleware]:
    """The middleware, outermost first. `hosts`: names beyond loopback that the page may be called by."""
    return [
        Middleware(SafeHeaders),
        *own_pages_only(hosts),
        Middleware(SessionGuard, token=token),
    ]


def cookie_name(token: str) -> str:
    """Of the page that the token opens: browsers keep the cookies of all ports of a host together."""
    return f"tuneloop-{digest(token)[:8]}"


class SafeHeaders:
    """Puts HEADERS on every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        await self.app(scope, receive, with_headers if scope["type"] == "http" else send)


class SessionGuard:
    """Lets in who has the cookie; the link with the token sets it. It cannot be read by scripts or sent by other sites.

    What changes something is a POST from the page itself: a browser says where it comes from.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token, self.session = app, token, secrets.token_urlsafe(32)
        self.cookie = cookie_name(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        await self._answer(Request(scope))(scope, receive, send)

    def _answer(self, request: Request) -> Any:
        if request.url.path == LOGIN:
            if not constant_time_equal(request.query_params.get("token", ""), self.token):
                return PlainTextResponse(
                    "This link is of another start of tuneloop ui: take the one it printed last.", 401
                )
            entered = RedirectResponse("/", 303)
            entered.set_cookie(self.cookie, self.session, httponly=True, samesite="strict")
            return entered
        if not constant_time_equal(request.cookies.get(self.cookie, ""), self.session):
            return PlainTextResponse("Open the link that tuneloop ui printed when it started.", 401)
        if request.method not in ("GET", "HEAD") and "origin" not in request.headers:
            return PlainTextResponse("Only the page itself may send this.", 403)
        return self.app
