"""The MCP servers over HTTP: how soon they answer, what they hold, how quickly the parameter server does."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from figures import figure
from parameters import ROUNDS, Spread, questions, spread_of
from place import Place
from processes import background, busy, environment, high_water, until

from tuneloop.core.run_spec import RunSpec
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle.drive import create_run
from tuneloop.graph.nodes.prepare import fetch_and_build
from tuneloop.graph.state import State
from tuneloop.tools.runs.signature import write_setup

NAMES = ("params", "data", "training", "evaluation")
STARTS = 5
BARE = """\
import sys
from fastmcp import FastMCP
server = FastMCP("bare")
@server.tool
def add(a: int, b: int) -> int:
    '''The sum.'''
    return a + b
server.run(transport="http", port=int(sys.argv[-1]), show_banner=False, log_level="warning")
"""
QUIET = {"FASTMCP_SHOW_SERVER_BANNER": "false", "FASTMCP_CHECK_FOR_UPDATES": "off"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
CONFIG = "finetuning_type: lora\nlora_rank: 8\nlearning_rate: 1.0e-4\ncutoff_len: 256\n"


@dataclass(frozen=True)
class Serving:
    """A server that answered: its process, its URL, seconds from its start until then."""

    pid: int
    url: str
    seconds: float


@contextmanager
def serving(place: Place, *argv: str) -> Iterator[Serving]:
    """The server while the block lasts; `argv` lacks the port."""
    port, log = free_port(), place.root / "servers.txt"
    began = time.perf_counter()
    with background([*argv, str(port)], env=environment(place.home) | QUIET, cwd=place.root, log=log) as child:
        until(lambda: answers(port), f"a server's answer, see {log}", child, 120)
        yield Serving(child.pid, f"http://127.0.0.1:{port}/mcp", time.perf_counter() - began)


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def answers(port: int) -> bool:
    """Whether a client is greeted."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", "/mcp", json.dumps(HELLO), HEADERS)
        return connection.getresponse().status == 200
    except ConnectionRefusedError:
        return False
    finally:
        connection.close()


def ours(name: str) -> tuple[str, ...]:
    """The command of one of our servers."""
    return (sys.executable, "-m", "tuneloop.mcp_servers.main", name, "--http", "--port")


@figure("server ready, ours / bare FastMCP server", "ratio", "<= 1.3")
def ready(place: Place) -> float:
    """Seconds from start to the first greeting, least of five each, in turns with the bare one; the slowest of the four."""
    commands = {"bare": (sys.executable, "-c", BARE), **{name: ours(name) for name in NAMES}}
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(1 if place.small else STARTS):
        for name, argv in commands.items():
            with serving(place, *argv) as server:
                seen[name].append((server.seconds, busy(server.pid)))
    wall, cpu = ({name: min(t[i] for t in times) for name, times in seen.items()} for i in (0, 1))
    place.note("server ready", {"wall": wall, "CPU": cpu})
    return max(wall[name] for name in NAMES) / wall["bare"]


def with_run(place: Place) -> Path:
    """A prepared run, which the servers then serve: what checks configs needs its model and device."""
    spec = RunSpec(benchmark="wordproblems", base_model="tiny", benchmark_limit=8)
    run = create_run(spec, place.settings, "served")
    write_setup(run, fetch_and_build(Context(run, place.settings, State(run_id=run.id))))
    return run.root


@dataclass(frozen=True)
class Asked:
    """The parameter server after all questions and a check: milliseconds of the questions, peak MB."""

    query: Spread
    memory: float


def asked(place: Place) -> Asked:
    """Every question once to warm it, then five times."""
    place.once(with_run)
    with serving(place, *ours("params")) as server:
        query = asyncio.run(ask(server.url, questions(place)))
        found = Asked(query, high_water(server.pid))
    place.note("parameter query over HTTP", {"p50": query.p50, "p95": query.p95, "peak MB of the server": found.memory})
    return found


async def ask(url: str, texts: list[str]) -> Spread:
    """As an agent asks, one session; for each question the least of five."""
    from fastmcp import Client

    async def one(text: str) -> float:
        began = time.perf_counter()
        await client.call_tool("query_parameters", {"text": text})
        return 1000 * (time.perf_counter() - began)

    async with Client(url) as client:
        await client.call_tool("check_config", {"yaml": CONFIG})
        times = [[await one(text) for text in texts] for _ in range(ROUNDS + 1)][1:]
    return spread_of([min(of_text) for of_text in zip(*times, strict=True)])


@figure("server memory", "MB", "<= 120")
def memory(place: Place) -> float:
    """Peak resident MB of the parameter server after some thousand questions and a check of a run's config."""
    return place.once(asked).memory


@figure("parameter query over HTTP, p95", "ms", "<= 15")
def over_http(place: Place) -> float:
    """With the client's own share."""
    return place.once(asked).query.p95
