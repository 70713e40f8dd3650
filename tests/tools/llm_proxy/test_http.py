"""One request per connection, within its time and size, over uvicorn's protocol as the proxy configures it."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import TYPE_CHECKING

import pytest
from uvicorn.server import ServerState

from tuneloop.tools.llm_proxy import http, server
from tuneloop.tools.llm_proxy.errors import ApiError
from tuneloop.tools.llm_proxy.http import ClientDisconnectError, EndpointProtocol, Exchange, Request

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

POST = b"POST /v1/x?q=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


class Application:
    """Reads requests as the proxy does; `found`: what it read, or why it could not; `acquired`: bytes reserved."""

    def __init__(self) -> None:
        self.found: list[Request | Exception] = []
        self.acquired: list[int] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        try:
            self.found.append(await exchange.read(self.acquire))
            await exchange.respond(200, b"{}")
        except ApiError as e:
            self.found.append(e)
            await exchange.respond_error(e)
        except ClientDisconnectError as e:
            self.found.append(e)
        finally:
            exchange.close()

    async def acquire(self, size: int) -> None:
        self.acquired.append(size)


async def connected(app: ASGIApp) -> socket.socket:
    """A client of the application."""
    ours, client = socket.socketpair()
    protocol = partial(EndpointProtocol, server.uvicorn_config(app), ServerState(), {})
    await asyncio.get_running_loop().connect_accepted_socket(protocol, ours)
    client.setblocking(False)
    return client


async def response_to(app: ASGIApp, *parts: bytes, end: bool = False) -> bytes:
    """Send `parts`, with `end` also the end of the stream; return the response."""
    loop, response = asyncio.get_running_loop(), b""
    with await connected(app) as client:
        for part in parts:
            await loop.sock_sendall(client, part)
        if end:
            client.shutdown(socket.SHUT_WR)
        try:
            while data := await asyncio.wait_for(loop.sock_recv(client, 1 << 16), 20):
                response += data
        except ConnectionResetError:
            pass
    return response


async def only_request(*parts: bytes) -> Request:
    app = Application()
    assert (await response_to(app, *parts)).startswith(b"HTTP/1.1 200")
    (found,) = app.found
    assert isinstance(found, Request)
    return found


async def test_request() -> None:
    found = await only_request(POST + b"Content-Length: 2\r\n\r\n", b"hi")
    assert found == Request("POST", "/v1/x", "t", b"hi")
    assert (await only_request(POST + CHUNKED, b"2\r\nhi\r\n", b"0\r\n\r\n")).body == b"hi"
    assert (await only_request(b"GET / HTTP/1.0\r\n\r\n")).token == ""


async def test_pipelined_request_is_ignored() -> None:
    second = POST + b"Content-Length: 6\r\n\r\nsecond"
    assert (await only_request(POST + b"Content-Length: 5\r\n\r\nfirst" + second)).body == b"first"
    ambiguous = POST + b"Content-Length: 5\r\n" + CHUNKED + b"0\r\n\r\n"
    app = Application()
    await response_to(app, ambiguous + second)
    assert [found.body for found in app.found if isinstance(found, Request)] in ([], [b""])


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nfirst",
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
        POST + b"Transfer-Encoding: gzip\r\n\r\n",
        POST + b"A" * (http.HEAD_BYTES + 1),
        b"POST /v1/x HTTP/1.1\r\n\r\n",
    ],
)
async def test_malformed_head(data: bytes) -> None:
    app = Application()
    assert (await response_to(app, data)).startswith(b"HTTP/1.1 400")
    assert not app.found


@pytest.mark.parametrize("data", [POST + CHUNKED + b"zz\r\n", POST + b"Content-Length: 10\r\n\r\nshort"])
async def test_malformed_body(data: bytes) -> None:
    app = Application()
    assert await response_to(app, data, end=True) == b""
    assert [type(found) for found in app.found] == [ClientDisconnectError]


@pytest.mark.parametrize("head", [b"Content-Length: 300000\r\n\r\n", CHUNKED + b"493e0\r\n"])
async def test_body_limit(monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    """The error is sent after the whole body was read: the client may write all of it before it reads."""
    monkeypatch.setattr(http, "BODY_BYTES", 1000)
    response = await response_to(Application(), POST + head, b"x" * 300_000, b"\r\n0\r\n\r\n" * (b"chunked" in head))
    assert response.startswith(b"HTTP/1.1 413")
    assert b'"too_large"' in response


@pytest.mark.parametrize("data", [b"", b"POST /v1", POST])
async def test_slow_head_is_disconnected(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(EndpointProtocol, "request_seconds", 0.05)
    assert await response_to(Application(), data) == b""


@pytest.mark.parametrize("data", [b"Content-Length: 5\r\n\r\nhal", CHUNKED])
async def test_slow_body_times_out(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(EndpointProtocol, "request_seconds", 0.05)
    monkeypatch.setattr(http, "BODY_SECONDS", 0.2)
    response = await response_to(Application(), POST + data)
    assert response.startswith(b"HTTP/1.1 408")
    assert b"retry-after: 1" in response.lower()


async def test_client_disconnects_at_once() -> None:
    app = Application()
    assert await response_to(app, end=True) == b""
    assert not app.found


async def test_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EndpointProtocol, "write_seconds", 0.05)
    ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        await exchange.read(Application().acquire)
        await exchange.start_stream()
        try:
            for _ in range(1000):
                await exchange.send(b"x" * (1 << 16))
                await asyncio.sleep(0)
        except ClientDisconnectError:
            ended.set_result(True)
        finally:
            exchange.close()

    with await connected(app) as client:
        client.send(POST + b"Content-Length: 0\r\n\r\n")
        assert await asyncio.wait_for(ended, 20)


@pytest.mark.parametrize(
    ("rest", "size"),
    [
        (b"Content-Length: 5\r\n\r\nfirst", 5),
        (CHUNKED + b"0\r\n\r\n", http.BODY_BYTES),
        (b"Content-Length: 0\r\n" + CHUNKED + b"0\r\n\r\n", http.BODY_BYTES),
        (b"\r\n", 0),
    ],
)
async def test_memory_is_acquired_before_the_body_is_read(rest: bytes, size: int) -> None:
    app = Application()
    await response_to(app, POST + rest)
    assert app.acquired == [size]


async def test_waiting_for_memory_stops_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a client can send while its request waits for memory is bounded."""
    app, released = Application(), asyncio.Event()

    async def wait(_: int) -> None:
        await released.wait()

    monkeypatch.setattr(app, "acquire", wait)
    with await connected(app) as client:
        client.send(POST + b"Content-Length: 4000000\r\n\r\n")
        sent = 0
        while sent < 4_000_000:
            try:
                sent += client.send(b"x" * (1 << 16))
            except BlockingIOError:
                await asyncio.sleep(0.05)
                try:
                    client.send(b"x")
                except BlockingIOError:
                    break
                sent += 1
        assert sent < 2_000_000
    released.set()


async def test_expect_continue() -> None:
    app, loop = Application(), asyncio.get_running_loop()
    with await connected(app) as client:
        client.send(POST + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert b"100" in await loop.sock_recv(client, 100)
        client.send(b"hi")
        assert b"200" in await loop.sock_recv(client, 1000)
    (found,) = app.found
    assert isinstance(found, Request)
    assert found.body == b"hi"


async def test_connection_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 1)
    app = Application()
    assert (await response_to(app, POST + b"\r\n")).startswith(b"HTTP/1.1 503")
    assert not app.found
