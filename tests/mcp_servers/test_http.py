"""Servers over HTTP in other processes: who may speak to them."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import pytest
from fastmcp import Client
from mcp import MCPError as McpError

from tuneloop.core.errors import InfrastructureError, InvalidRequestError, ToolError
from tuneloop.core.settings import Settings
from tuneloop.mcp_servers.client import open_toolbox
from tuneloop.mcp_servers.main import check_token
from tuneloop.mcp_servers.scope import Scope

SEED_TOOLS = {"list_parameter_files", "read_source_file", "read_constants", "get_decision_guidance"}
HELLO = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextmanager
def running(
    home: Path, *options: str, name: str, argv: tuple[str, ...], log: Path | None, env: dict[str, str]
) -> Iterator[tuple[int, int]]:
    """A server's port and process while it serves; `argv`: another program than ours, its port is added."""
    port = free_port()
    ours = (sys.executable, "-m", "tuneloop.mcp_servers.main", name, "--http", *options, "--port")
    told = {**os.environ, "FT_FILE_PATH": str(home), **env}
    with log.open("wb") if log else nullcontext() as err:
        p = subprocess.Popen([*(argv or ours), str(port)], env=told, cwd=home, stdout=err, stderr=err)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert p.poll() is None, "the server ended"
            time.sleep(0.1)
        yield port, p.pid
        assert p.poll() is None, "the server ended"
    finally:
        p.terminate()
        p.wait(10)


@contextmanager
def serving(home: Path, *options: str, name: str = "params", argv: tuple[str, ...] = (), **env: str) -> Iterator[int]:
    """The port alone."""
    with running(home, *options, name=name, argv=argv, log=None, env=env) as (port, _):
        yield port


def status(port: int, **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    plain = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.request("POST", "/mcp", HELLO, {**plain, **headers})
    return connection.getresponse().status


async def test_loopback_refuses_foreign_origins_and_hosts(tmp_path: Path) -> None:
    with serving(tmp_path) as port:
        assert status(port, Origin="https://evil.example") == 403
        assert status(port, Host="evil.example") == 421
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            names = {tool.name for tool in await client.list_tools()}
    assert SEED_TOOLS | {"query_parameters", "describe_parameter", "check_config", "suggest_config"} <= names


async def test_a_token_is_wanted_where_one_is_set(tmp_path: Path) -> None:
    with serving(tmp_path, TUNELOOP_MCP_TOKEN="open-sesame") as port:
        assert status(port) == 401
        assert status(port, Authorization="Bearer wrong") == 401
        async with Client(f"http://127.0.0.1:{port}/mcp", auth="open-sesame") as client:
            assert await client.list_tools()


def test_beyond_loopback_only_with_a_token(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "tuneloop.mcp_servers.main", "params", "--http", "--host", "0.0.0.0", "--port", "1"]
    env = {**os.environ, "FT_FILE_PATH": str(tmp_path)}
    p = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert p.returncode == 2
    assert "TUNELOOP_MCP_TOKEN" in p.stderr
    assert p.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["params", "data", "training", "evaluation"])
def test_help_and_unknown_run(tmp_path: Path, name: str) -> None:
    argv = [sys.executable, "-m", "tuneloop.mcp_servers.main", name, "--run", "nowhere"]
    env = {**os.environ, "FT_FILE_PATH": str(tmp_path)}
    p = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert p.returncode == 2
    assert "nowhere" in p.stderr


IMPATIENT = (
    "import sys; from tuneloop.mcp_servers import main, middleware as web; web.BoundedH11Protocol.request_seconds = 0.5; "
    "main.serve_scope('params', None, True, '127.0.0.1', int(sys.argv[1]))"
)
BEGUN = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def test_unfinished_requests_are_cut_off(tmp_path: Path) -> None:
    with serving(tmp_path, argv=(sys.executable, "-c", IMPATIENT)) as port:
        for said in (b"", b"POST /mc", BEGUN, BEGUN + b"Content-Length: 100\r\n\r\nabc"):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as s, suppress(ConnectionResetError):
                s.sendall(said)
                assert s.recv(1) == b""
        assert status(port) == 400, "who does is served: here, that a session is wanted"


def test_a_second_request_on_a_connection_is_waited_for_no_longer(tmp_path: Path) -> None:
    with (
        serving(tmp_path, argv=(sys.executable, "-c", IMPATIENT)) as port,
        socket.create_connection(("127.0.0.1", port), timeout=60) as s,
        suppress(ConnectionResetError),
    ):
        s.sendall(BEGUN + b"Content-Length: 0\r\n\r\n")
        assert s.recv(1 << 16).startswith(b"HTTP/1.1 4")
        s.sendall(BEGUN)
        while s.recv(1 << 16):
            pass


def test_headers_and_bodies_are_bounded(tmp_path: Path) -> None:
    with serving(tmp_path) as port:
        assert status(port, X="a" * 70_000) in {400, 431}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", "/mcp", b" " * (5 << 20), {"Content-Type": "application/json"})
        assert connection.getresponse().status == 413


# A connection over loopback that is counted as one from elsewhere.
FROM_ELSEWHERE = (
    "import sys; from tuneloop.mcp_servers import main, middleware; middleware.is_loopback = lambda scope: False; "
    "main.serve_scope('params', None, True, '127.0.0.1', int(sys.argv[1]), RATE)"
)


def from_elsewhere(rate: float) -> tuple[str, ...]:
    return (sys.executable, "-c", FROM_ELSEWHERE.replace("RATE", str(rate)))


def test_too_many_requests_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path, argv=from_elsewhere(1e-3)) as port:
        assert [status(port) for _ in range(4)] == [400, 429, 429, 429]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/mcp")
        assert 900 < int(connection.getresponse().headers["Retry-After"]) <= 1000


def test_loopback_has_no_limit(tmp_path: Path) -> None:
    with serving(tmp_path, "--rate", "0.001") as port:
        assert [status(port) for _ in range(5)] == [400] * 5


async def test_our_client_waits_as_long_as_the_server_says(tmp_path: Path) -> None:
    """Three requests at once, one more in two seconds: a client that asks on is served, later."""
    with serving(tmp_path, argv=from_elsewhere(1.5)) as port:
        settings = Settings(FT_FILE_PATH=tmp_path, TUNELOOP_MCP_URLS={"params": f"http://127.0.0.1:{port}/mcp"})
        before = time.monotonic()
        name = "params_get_decision_guidance"
        async with open_toolbox(Scope(None, settings), (name,)) as tools:
            for _ in range(4):
                assert await tools.names() == [name]
        assert time.monotonic() - before > 1


def test_beyond_loopback_a_short_token_is_refused() -> None:
    for host in ("0.0.0.0", "::", "", "192.168.7.7", "example.org"):
        with pytest.raises(InvalidRequestError, match="set TUNELOOP_MCP_TOKEN"):
            check_token(host, None)
        with pytest.raises(InvalidRequestError, match="has 8 characters; right are 16 or more"):
            check_token(host, "12345678")
        check_token(host, "0123456789abcdef")
    check_token("127.0.0.1", None)


def test_beyond_loopback_names_and_pages_are_still_checked(tmp_path: Path) -> None:
    token = "sesame-open-sesame"
    argv = (sys.executable, "-m", "tuneloop.mcp_servers.main", "params", "--http", "--host", "0.0.0.0", "--port")
    with serving(tmp_path, argv=argv, TUNELOOP_MCP_TOKEN=token, FASTMCP_HTTP_ALLOWED_HOSTS='["gpu-box"]') as port:
        signed = {"Authorization": f"Bearer {token}"}
        assert status(port) == 401
        assert status(port, **signed, Host="evil.example") == 421
        assert status(port, **signed, Origin="https://evil.example") == 403
        assert status(port, **signed, Host="gpu-box:8124") == 400, "a name that the user gave"
        assert status(port, **signed) == 400, "the token's bearer is served: here, that a session is wanted"


async def test_the_token_does_not_follow_a_redirect(tmp_path: Path) -> None:
    """A server that was taken over cannot send its clients, token and all, elsewhere."""
    heard: list[str | None] = []

    class Elsewhere(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(self.headers.get("Authorization"))
            self.send_error(500)

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    class Turned(Elsewhere):
        def do_POST(self) -> None:
            self.send_response(307)
            self.send_header("Location", f"http://localhost:{elsewhere.server_port}/mcp")
            self.end_headers()

        do_GET = do_POST

    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as elsewhere,
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), Turned) as turned,
    ):
        for server in (elsewhere, turned):
            threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{turned.server_port}/mcp"
        settings = Settings(
            FT_FILE_PATH=tmp_path, TUNELOOP_MCP_URLS={"params": url}, TUNELOOP_MCP_TOKEN="secret-secret"
        )
        with pytest.raises((InfrastructureError, ToolError, RuntimeError, McpError)):
            async with open_toolbox(Scope(None, settings), None) as tools:
                await tools.call("params_list_templates")
        for server in (elsewhere, turned):
            server.shutdown()
    assert set(heard) <= {None}
