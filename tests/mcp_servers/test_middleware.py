"""The door of `langgraph dev`, asked as the server asks it: one ASGI scope a request or handshake."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from tests.conftest import ROOT
from tuneloop.mcp_servers.middleware import CheckedApp, JsonOnly, RateLimit, middleware

TOKEN = "sesame-open-sesame"
STUDIO = "https://studio.example"
LAN = ("192.168.7.7", 2024)
HERE = ("127.0.0.1", 2024)


def built(middleware: list[Middleware]) -> Any:
    async def inside(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})

    app: Any = inside
    for cls, args, kwargs in reversed(middleware):
        app = cls(app, *args, **kwargs)
    return app


async def ask(app: Any, server: tuple[str, int] = HERE, body: bytes = b"{}", **scope: Any) -> int | str:
    """The status of an answer, or what became of a handshake."""
    headers = {"host": f"{server[0]}:{server[1]}", "content-type": "application/json", **scope.pop("headers", {})}
    said: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        said.append(message)

    plain = {"type": "http", "method": "POST", "path": "/threads", "scheme": "http", "server": server, "root_path": ""}
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    await app({**plain, **scope, "headers": raw}, receive, send)
    return said[0]["status"] if "status" in said[0] else str(said[0]["type"])


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:2024"}, 200),
        ({"host": "[::1]:2024"}, 200),
        ({"host": ""}, 421),
        ({"host": "evil.example:2024"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "localhost.evil.example"}, 421),
        ({"host": "192.168.7.7:2024"}, 421),
        ({"origin": STUDIO}, 200),
        ({"origin": "http://127.0.0.1:2024"}, 200),
        ({"origin": "http://LocalHost:2024", "host": "localhost:2024"}, 200),
        ({"origin": "http://localhost:3000"}, 403),
        ({"origin": "http://localhost:2024"}, 403),
        ({"origin": "http://127.0.0.1"}, 403),
        ({"origin": "https://127.0.0.1:2024"}, 403),
        ({"origin": "http://[::1]:8888"}, 403),
        ({"origin": "http://localhost"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "file://"}, 403),
        ({"origin": f"{STUDIO}.evil.example"}, 403),
        ({"origin": "http://127.0.0.1.evil.example"}, 403),
        ({"origin": "http://[::1"}, 403),
    ],
)
async def test_host_and_origin(headers: dict[str, str], status: int) -> None:
    app = built(middleware(None, [STUDIO], 1000))
    assert await ask(app, headers=headers) == status
    shaken = "websocket.accept" if status == 200 else "websocket.close"
    assert await ask(app, headers=headers, type="websocket", scheme="ws") == shaken


@pytest.mark.parametrize(
    ("headers", "right"),
    [
        (bearer(TOKEN), True),
        ({"x-api-key": TOKEN}, True),
        ({}, False),
        (bearer(""), False),
        (bearer(TOKEN[:-1]), False),
        (bearer(TOKEN + "x"), False),
        (bearer("\xff\xfe"), False),
        ({"authorization": f"Basic {TOKEN}"}, False),
        ({"x-auth-scheme": "langsmith"}, False),
    ],
)
@pytest.mark.parametrize("server", [HERE, LAN])
async def test_where_a_token_is_set_everybody_needs_it(
    server: tuple[str, int], headers: dict[str, str], right: bool
) -> None:
    app = built(middleware(TOKEN, [STUDIO], 1000))
    assert await ask(app, server, headers=headers) == (200 if right else 401)
    shaken = await ask(app, server, headers=headers, type="websocket", scheme="ws")
    assert shaken == ("websocket.accept" if right else "websocket.close")


async def test_without_a_token_only_loopback_is_served() -> None:
    app = built(middleware(None, [STUDIO], 1000))
    assert await ask(app, LAN) == 403
    assert await ask(app, LAN, type="websocket", scheme="ws") == "websocket.close"
    assert await ask(app, ("::1", 2024), headers={"host": "[::1]:2024"}) == 200
    assert await ask(app, LAN, path="/ok", method="GET") == 200, "that it lives may be known"


async def test_preflight_needs_no_token_but_a_known_origin() -> None:
    app = built(middleware(TOKEN, [STUDIO], 1000))
    asked = {"access-control-request-method": "POST"}
    assert await ask(app, method="OPTIONS", headers={**asked, "origin": STUDIO}) == 200
    assert await ask(app, method="OPTIONS", headers={**asked, "origin": "https://evil.example"}) == 403
    assert await ask(app, method="POST", headers={**asked, "origin": STUDIO}) == 401


@pytest.mark.parametrize(("origin", "status"), [("https://smith.langchain.com", 200), ("https://evil.example", 400)])
async def test_the_hosted_page_may_send_and_read_what_it_needs(origin: str, status: int) -> None:
    """What `langgraph.json` says replaces langgraph's own settings, which allow every header and show these."""
    cors = json.loads((ROOT / "langgraph.json").read_text())["http"]["cors"]
    app = built([Middleware(CORSMiddleware, **cors)])
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "content-type,x-auth-scheme"}
    assert await ask(app, method="OPTIONS", headers={**asked, "origin": origin}) == status
    assert {"content-location", "x-pagination-total"} <= set(cors["expose_headers"])


async def test_calls_within_the_process_are_not_asked() -> None:
    app = built(middleware(TOKEN, [STUDIO], 1000))
    assert await ask(app, ("api", 80), root_path="/noauth", headers={"host": "api"}) == 200


async def test_what_is_too_large_or_too_often_is_refused() -> None:
    app = built(middleware(None, [STUDIO], 1000))
    assert await ask(app, body=b" " * (5 << 20)) == 413
    slow = built([Middleware(RateLimit, 0.001)])
    assert [await ask(slow, LAN) for _ in range(3)] == [200, 429, 429]
    assert [await ask(slow) for _ in range(5)] == [200] * 5, "loopback has no limit"
    free = built([Middleware(RateLimit, 0)])
    assert [await ask(free, LAN) for _ in range(5)] == [200] * 5


def test_every_check_applies_to_websockets() -> None:
    """A guard that only knows HTTP would wave a handshake through."""
    guards: list[Any] = [middleware.cls for middleware in middleware(TOKEN, [], 1000)]
    assert guards.count(CheckedApp) == 4


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1:8888"])
async def test_another_page_of_this_machine_needs_the_token(origin: str) -> None:
    app = built(middleware(TOKEN, [STUDIO], 1000))
    assert await ask(app, headers={"origin": origin, **bearer(TOKEN)}) == 200
    assert await ask(app, headers={"origin": origin, **bearer("wrong")}) == 403
    assert await ask(app, headers={"origin": origin, "access-control-request-method": "POST"}, method="OPTIONS") == 200
    assert await ask(app, headers={"origin": "https://evil.example", **bearer(TOKEN)}) == 403
    tokenless = built(middleware(None, [STUDIO], 1000))
    asked = {"origin": origin, "access-control-request-method": "POST"}
    assert await ask(tokenless, headers=asked, method="OPTIONS") == 403


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain", "text/plain; application/json", "application/x-www-form-urlencoded", "multipart/form-data",
        "application/json, text/plain", "application/json; charset=utf-7", "application/jsonx", "", "text/json",
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_bodies_that_are_no_json_are_refused(kind: str, method: str) -> None:
    app = built(middleware(None, [STUDIO], 1000))
    assert await ask(app, method=method, headers={"content-type": kind, "content-length": "2"}) == 415


async def test_json_and_no_body_at_all_pass() -> None:
    app = built([Middleware(JsonOnly)])
    for kind in ("application/json", "Application/JSON; charset=UTF-8", 'application/json; charset="utf-8"'):
        assert await ask(app, headers={"content-type": kind, "content-length": "2"}) == 200
    bare = {"type": "http", "path": "/", "scheme": "http", "server": HERE, "root_path": "", "method": "POST"}
    assert await status_of(app, {**bare, "headers": [(b"content-length", b"0")]}) == 200
    assert await status_of(app, {**bare, "headers": []}) == 200
    assert await status_of(app, {**bare, "headers": [(b"content-length", b"2")]}) == 415
    assert await status_of(app, {**bare, "headers": [(b"transfer-encoding", b"chunked")]}) == 415
    twice = [(b"content-type", b"application/json"), (b"content-type", b"text/plain")]
    assert await status_of(app, {**bare, "headers": twice}) == 415


async def status_of(app: Any, scope: dict[str, Any]) -> int:
    """The status of the answer to a bare scope."""
    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    await app(scope, receive, send)
    return int(said[0]["status"])


@pytest.mark.parametrize(
    ("site", "mode", "place", "status"),
    [
        ("same-origin", "cors", "empty", 200),
        ("none", "navigate", "document", 200),
        ("cross-site", "navigate", "document", 200),
        ("same-site", "no-cors", "empty", 403),
        ("cross-site", "no-cors", "image", 403),
        ("cross-site", "no-cors", "script", 403),
        ("cross-site", "navigate", "iframe", 403),
        ("same-site", "navigate", "object", 403),
        ("cross-site", "", "", 403),
    ],
)
async def test_what_a_page_embeds_without_an_origin_needs_the_token(
    site: str, mode: str, place: str, status: int
) -> None:
    """A browser names no origin for a picture, a script or a GET that the page cannot read."""
    asked = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": place}
    app = built(middleware(None, [STUDIO], 1000))
    assert await ask(app, method="GET", headers=asked) == status
    assert await ask(app, method="GET", headers={**asked, "origin": STUDIO}) == 200
    assert await ask(built(middleware(TOKEN, [STUDIO], 1000)), headers={**asked, **bearer(TOKEN)}) == 200
