"""Malformed requests: seeded, thousands of them; the proxy survives, reveals nothing and does not grow."""

from __future__ import annotations

import json
import os
import random
import select
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.tools.llm_proxy.conftest import CANARY, CHAT, JobEndpoint, MakeEndpoint, Provider

BODY = b'{"model": "weak", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1}'
LINES = (
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked, identity", b"Transfer-Encoding:\x0bchunked",
    b"Content-Length: 0", b"Content-Length: 7", b"Content-Length: +5", b"Content-Length: 5, 5", b"Content-Length: 1e3",
    b"Expect: 100-continue", b"Upgrade: h2c", b"Connection: Upgrade, HTTP2-Settings", b" folded: line", b"No-Colon",
    b"X: " + b"y" * 40_000, b"Host: evil", b"\x00: \x00", b"Authorization: Bearer wrong", b"Cookie: " + b"a=b; " * 500,
)  # fmt: skip
PATHS = (
    b"/v1/models", CHAT.encode(), b"/v1/completions", b"/v1/embeddings", b"/../../etc/passwd", b"//", b"*", b"/v1/%00",
    b"http://169.254.169.254/latest", b"/v1/chat/completions?x=" + b"z" * 3000, b"/" + b"a" * 40_000, b"\xff\xff", b"",
)  # fmt: skip
METHODS = (b"POST", b"POST", b"GET", b"HEAD", b"CONNECT", b"PRI", b"post", b"P\x00ST", b"", b"DELETE" * 100)
VALUES: tuple[object, ...] = (
    None,
    True,
    -1,
    0,
    10**400,
    1e308,
    "",
    "\ud800",
    "x" * 5000,
    [],
    {},
    [[[[]]]],
    {"a": {"b": {"c": 1}}},
    "strong",
)
NAMES = (
    "model",
    "messages",
    "n",
    "max_tokens",
    "stream",
    "stream_options",
    "tools",
    "temperature",
    "seed",
    "user",
    "store",
)


def request(rng: random.Random, token: str) -> bytes:
    """Something between a request and noise."""
    kind = rng.randrange(6)
    if kind == 0:
        return rng.randbytes(rng.randrange(2000))
    body = nonsense(rng) if kind in (1, 2) else BODY
    lines = [b"Host: a", b"Authorization: Bearer " + token.encode()]
    lines += [b"Content-Length: %d" % len(body)] if rng.random() < 0.8 else []
    if kind > 2:
        lines += rng.choices(LINES, k=rng.randrange(4))
        rng.shuffle(lines)
    method, path = (rng.choice(METHODS), rng.choice(PATHS)) if kind > 3 else (b"POST", CHAT.encode())
    version = rng.choice((b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9", b""))
    whole = method + b" " + path + b" " + version + b"\r\n" + b"\r\n".join(lines) + b"\r\n\r\n" + body
    if kind == 5:
        place = rng.randrange(len(whole))
        whole = (
            whole[:place]
            + rng.choice((b"", b"\n", b"\r", b"\x00", rng.randbytes(3)))
            + whole[place + rng.randrange(4) :]
        )
    return whole * rng.choice((1, 1, 1, 2)) if rng.random() < 0.9 else whole[: rng.randrange(len(whole) + 1)]


def nonsense(rng: random.Random) -> bytes:
    """A body with wrong values, cut, or deep."""
    if rng.random() < 0.1:
        return rng.choice((b"[" * 50_000, b'{"a":' * 20_000, b"9" * 20_000, b"\xff" * 99, b"NaN", b'"', b""))
    body = json.loads(BODY)
    for _ in range(rng.randrange(1, 4)):
        body[rng.choice(NAMES)] = rng.choice(VALUES)
    return json.dumps(body).encode()[: rng.choice((None, None, 40))]


def send(handle: int, data: bytes) -> bytes:
    """Send it and return the response; after a silence the stream ends: data may be incomplete."""
    found = b""
    with socket.socket(socket.AF_UNIX) as connection, suppress(ConnectionError):
        connection.settimeout(30)
        connection.connect(f"/proc/self/fd/{handle}/socket")
        with suppress(BrokenPipeError):  # a refusal may have come before the end
            connection.sendall(data)
        while select.select([connection], [], [], 0.1)[0] and (part := connection.recv(1 << 16)):
            found += part
        connection.shutdown(socket.SHUT_WR)
        while part := connection.recv(1 << 16):
            found += part
    return found


def size(pid: int) -> tuple[int, int]:
    """Resident bytes and open descriptors."""
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident, len(os.listdir(f"/proc/{pid}/fd"))


def fuzz(endpoint: JobEndpoint, provider: Provider, count: int, seed: int) -> None:
    rng = random.Random(seed)
    pid, handle = endpoint.pid, os.open(endpoint.folder / "in", os.O_PATH)
    before = (0, 0)
    with ThreadPoolExecutor(8) as pool:
        for start in range(0, count, 250):
            thrown = [request(rng, endpoint.token) for _ in range(250)]
            for data, found in zip(thrown, pool.map(partial(send, handle), thrown), strict=True):
                assert CANARY.encode() not in found, data[:200]
                assert found == b"" or found.startswith(b"HTTP/1.1 "), found[:100]
            if start == min(500, count // 5 // 250 * 250):
                before = size(pid)
    os.close(handle)
    assert endpoint.ask().status_code == 200
    assert endpoint.pid == pid, "the same process"
    after = size(pid)
    assert after[0] - before[0] < 24 << 20, "memory is flat"
    assert after[1] - before[1] < 8, "descriptors are flat"
    assert (endpoint.proxy / "log.txt").read_text() == ""
    assert endpoint.run.ledger.stat().st_size < 2_000_000 + 400 * len(provider.seen)


def test_malformed_requests(make_endpoint: MakeEndpoint, provider: Provider) -> None:
    fuzz(make_endpoint(), provider, 2500, seed=int(os.environ.get("FUZZ_SEED", "5")))


@pytest.mark.soak
def test_malformed_requests_for_long(make_endpoint: MakeEndpoint, provider: Provider) -> None:
    fuzz(make_endpoint(TUNELOOP_API_JOB_LIMITS={"requests": 1_000_000}), provider, 60_000, seed=6)
