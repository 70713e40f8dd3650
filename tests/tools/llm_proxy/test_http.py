"""One connection: one request within its time and size, whatever else is sent."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tuneloop.tools.llm_proxy import http
from tuneloop.tools.llm_proxy.errors import ApiError
from tuneloop.tools.llm_proxy.http import ClientDisconnectError, Exchange, Request

POST = b"POST /v1/x?q=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n"


async def anything(_: int) -> None:
    """There is room."""


async def pair() -> tuple[Exchange, socket.socket]:
    ours, theirs = socket.socketpair()
    return Exchange(*await asyncio.open_connection(sock=ours, limit=1 << 16)), theirs


async def said(*pieces: bytes, end: bool = True) -> Request:
    line, client = await pair()
    try:
        for piece in pieces:
            client.sendall(piece)
        if end:
            client.shutdown(socket.SHUT_WR)
        return await line.read(anything)
    finally:
        client.close()
        await line.close()


async def test_request() -> None:
    found = await said(POST + b"Content-Length: 2\r\n\r\nhi")
    assert found == Request("POST", "/v1/x", "t", b"hi")
    assert (await said(POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n")).body == b"hi"
    assert (await said(b"GET / HTTP/1.0\r\n\r\n")).token == ""


async def test_pipelined_request_is_ignored() -> None:
    second = POST + b"Content-Length: 6\r\n\r\nsecond"
    assert (await said(POST + b"Content-Length: 5\r\n\r\nfirst" + second)).body == b"first"
    both = POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second
    try:
        assert (await said(both)).body == b""
    except ApiError as e:
        assert e.status == 400  # either reading is safe: nothing of it is passed on as it came


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400),
        (POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nfirst", 400),
        (POST + b"Content-Length: -1\r\n\r\n", 400),
        (POST + b"Content-Length: 99999999999999999999999\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: gzip\r\n\r\n", 501),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (POST + b"A" * (http.HEAD_BYTES + 1), 431),
        (b"POST /v1/x HTTP/1.1\r\n\r\n", 400),
        (POST + b"Content-Length: 10\r\n\r\nshort", 400),
    ],
)
async def test_malformed_request(data: bytes, status: int) -> None:
    with pytest.raises(ApiError) as caught:
        await said(data)
    assert caught.value.status == status


async def test_body_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_BYTES", 1000)
    with pytest.raises(ApiError) as caught:
        await said(POST + b"Content-Length: 1001\r\n\r\n" + b"x" * 1001)
    assert caught.value.status == 413


@pytest.mark.parametrize("data", [b"", POST, POST + b"Content-Length: 5\r\n\r\nhal"])
async def test_slow_request_times_out(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(http, "HEAD_SECONDS", 0.05)
    monkeypatch.setattr(http, "BODY_SECONDS", 0.05)
    with pytest.raises(ApiError) as caught:
        await said(data, end=False)
    assert (caught.value.status, caught.value.retry_after) == (408, 1)


async def test_client_disconnects_at_once() -> None:
    with pytest.raises(ClientDisconnectError):
        await said()


async def test_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "WRITE_SECONDS", 0.05)
    line, client = await pair()
    client.sendall(POST + b"Content-Length: 0\r\n\r\n")
    await line.read(anything)
    await line.start_stream()
    with pytest.raises(ClientDisconnectError):
        for _ in range(1000):
            await line.send(b"x" * (1 << 16))
    client.close()


@pytest.mark.parametrize(
    ("head", "wanted"),
    [
        (b"Content-Length: 5\r\n\r\nfirst", 5),
        (b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", http.BODY_BYTES),
        (b"\r\n", 0),
    ],
)
async def test_memory_is_acquired_before_the_body_is_read(head: bytes, wanted: int) -> None:
    asked: list[int] = []

    async def take(size: int) -> None:
        asked.append(size)

    line, client = await pair()
    client.sendall(POST + head)
    await line.read(take)
    client.close()
    await line.close()
    assert asked == [wanted]


async def test_expect_continue() -> None:
    line, client = await pair()
    client.sendall(POST + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    reading = asyncio.create_task(line.read(anything))
    client.setblocking(False)
    assert b"100" in await asyncio.get_running_loop().sock_recv(client, 100)
    client.sendall(b"hi")
    assert (await reading).body == b"hi"
    client.close()
    await line.close()
