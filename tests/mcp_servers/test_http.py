"""Servers over HTTP in other processes: who may speak to them."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fastmcp import Client

SEED_TOOLS = {"list_parameter_files", "read_source_file", "read_constants", "get_decision_guidance"}
HELLO = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextmanager
def serving(home: Path, *options: str, name: str = "params", argv: tuple[str, ...] = (), **env: str) -> Iterator[int]:
    """A server's port while it serves; `argv`: another program than ours, its port is added."""
    port = free_port()
    ours = (sys.executable, "-m", "tuneloop.mcp_servers.main", name, "--http", *options, "--port")
    p = subprocess.Popen([*(argv or ours), str(port)], env={**os.environ, "FT_FILE_PATH": str(home), **env}, cwd=home)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert p.poll() is None, "the server ended"
            time.sleep(0.1)
        yield port
    finally:
        p.terminate()
        p.wait(10)


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
