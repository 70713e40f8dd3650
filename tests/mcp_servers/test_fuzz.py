"""Malformed requests to all servers over HTTP: none crashes, hangs or leaks, and none fattens them."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import shutil
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import linked_home
from tests.mcp_servers.malformed import JSON, Draw, Request, message
from tests.mcp_servers.test_http import running
from tuneloop.core.files import read_json, read_lines

TOKEN = "canary-token-5f1d7a"
KEY = "canary-key-93c04b"
CI, SOAK = 2500, 50_000
FATTER = 64 << 20  # bytes that a server may gain after its first fifth: caches, arenas
# A question that each server answers rightly, after everything.
RIGHT: dict[str, tuple[str, dict[str, Any], str]] = {
    "params": ("describe_parameter", {"name": "lora_rank"}, "lora_rank"),
    "data": ("list_datasets", {}, "textbook.csv.jsonl"),
    "training": ("status", {"experiment": 1, "kind": "train"}, "over"),
    "evaluation": ("get_result", {"experiment": 1}, "accuracy"),
    "runs": ("list_runs", {}, "finished"),
}
INTERNALS = re.compile(rb"Traceback|site-packages|File \\?\"/|root:x:0|\.pyenv|Error calling tool|Errno")


@dataclass
class Target:
    """One server, and what it said wrong."""

    name: str
    port: int
    pid: int
    log: Path
    secrets: list[bytes]
    session: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def open(self) -> list[dict[str, Any]]:
        """Open a session as a client does, and ask for the tools."""
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "fuzz", "version": "1"}}
        connection = self.connect()
        connection.request("POST", "/mcp", message("initialize", hello, 1), self.signed(JSON))
        reply = connection.getresponse()
        self.session = {"Mcp-Session-Id": reply.headers["Mcp-Session-Id"], "Mcp-Protocol-Version": "2025-11-25"}
        reply.read()
        tools: list[dict[str, Any]] = self.ask(message("tools/list", {}, 2))["result"]["tools"]
        return tools

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def signed(self, headers: Any) -> dict[str, str]:
        return {"Authorization": f"Bearer {TOKEN}", **headers}

    def ask(self, body: bytes) -> Any:
        """The answer to a right request."""
        status, text = 429, ""
        while status == 429:  # who has just sent so many has to wait a little
            time.sleep(0.1)
            connection = self.connect()
            connection.request("POST", "/mcp", body, self.signed(JSON | self.session))
            reply = connection.getresponse()
            status, text = reply.status, reply.read().decode()
        assert status == 200, text
        (line,) = [row.removeprefix("data:") for row in text.splitlines() if row.startswith("data:")]
        return json.loads(line)

    def send(self, request: Request) -> None:
        """One malformed request; what is wrong with the answer is noted."""
        try:
            status, said = self.shout(request.raw) if request.raw is not None else self.tell(request)
        except TimeoutError:
            self.faults.append(f"no answer in time: {request}"[:600])
            return
        self.seen[f"{'tool ' * request.tool}{status}"] += 1
        found = INTERNALS.search(said) or next((s for s in self.secrets if s in said), None)
        if status >= 500 or found:
            self.faults.append(f"{status} {said[-400:]!r} to {request}"[:1200])

    def tell(self, request: Request) -> tuple[int, bytes]:
        connection = self.connect()
        try:
            connection.putrequest(request.method, request.path, skip_host="Host" in request.headers)
            for name, value in self.signed(request.headers).items():
                connection.putheader(name, value.encode("latin-1"))
            connection.putheader("Content-Length", str(len(request.body)))
            with suppress(BrokenPipeError, ConnectionResetError):  # it may have been refused by then
                connection.endheaders(request.body)
            reply = connection.getresponse()
            return reply.status, reply.read() + str(reply.headers).encode()
        except (ConnectionError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def shout(self, raw: bytes) -> tuple[int, bytes]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as s, suppress(ConnectionError):
            s.sendall(raw)
            s.shutdown(socket.SHUT_WR)
            said = b"".join(iter(partial(s.recv, 1 << 16), b""))
            status = re.match(rb"HTTP/1\.1 (\d{3})", said)
            return int(status[1]) if status else 0, said
        return 0, b""

    def size(self) -> tuple[int, int]:
        """Resident bytes and open descriptors."""
        rss = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert rss
        return int(rss[1]) << 10, len(os.listdir(f"/proc/{self.pid}/fd"))


def bombard(target: Target, seed: int, count: int) -> None:
    """Send `count` requests of `seed`; then the server still knows a right question, and is no fatter."""
    draw = Draw(random.Random(f"{seed} {target.name}"), target.open(), target.session)
    for _ in range(count // 5):
        target.send(draw.request())
    memory, handles = target.size()
    for _ in range(count - count // 5):
        target.send(draw.request())
    after = target.size()
    assert after[0] - memory < FATTER
    assert after[1] <= handles + 8
    tool, arguments, known = RIGHT[target.name]
    assert known in json.dumps(target.ask(message("tools/call", {"name": tool, "arguments": arguments}, 9))["result"])


def fuzz(whole_run: Any, tmp_path: Path, seed: int, count: int) -> Counter[str]:
    """All servers at once, each with its share; returns statuses by how often they came."""
    home = linked_home(tmp_path / "home")
    shutil.copy(whole_run.home / "signing.key", home)
    shutil.copytree(
        whole_run.run.root, home / "runs" / "whole", symlinks=True, ignore=shutil.ignore_patterns("workers")
    )
    sealed = Path(read_json(whole_run.run.setup)["benchmark_root"]) / "sealed"
    texts = [row["prompt"].encode() for name in ("test", "validation") for row in read_lines(sealed / f"{name}.jsonl")]
    before = {str(f) for f in (home / "runs").rglob("*")}
    env = {"TUNELOOP_MCP_TOKEN": TOKEN, "OPENAI_API_KEY": KEY, "FT_CHAT_API_KEY": KEY, "HF_TOKEN": KEY}
    with ExitStack() as stack:
        targets = []
        for name in RIGHT:
            log = tmp_path / f"{name}.log"
            # of all runs, for their owner: a finished run's report may quote the test
            run, closed = ((), []) if name == "runs" else (("--run", "whole"), texts)
            port, pid = stack.enter_context(running(home, *run, name=name, argv=(), log=log, env=env))
            targets.append(Target(name, port, pid, log, [TOKEN.encode(), KEY.encode(), *closed]))
        with ThreadPoolExecutor(len(targets)) as pool:
            for done in [pool.submit(bombard, target, seed, count // len(targets)) for target in targets]:
                done.result()
    for target in targets:
        said = target.log.read_bytes()
        assert target.faults == [], f"{target.name}: {len(target.faults)} faults"
        # FastMCP writes down a prompt that was asked for without its arguments as if it had crashed.
        crashes = said.count(b"Traceback") - said.count(b"Missing required arguments")
        assert crashes == 0, said[-3000:].decode(errors="replace")
        assert not [secret for secret in target.secrets if secret in said]
    new = {str(f) for f in (home / "runs").rglob("*")} - before
    assert not [f for f in new if "/profiles" not in f], "no request started or wrote anything"
    return sum((target.seen for target in targets), Counter())


def test_malformed_requests(whole_run, tmp_path: Path) -> None:
    seen = fuzz(whole_run, tmp_path, 1, CI)
    assert seen["tool 200"] > CI / 4, "most get as far as a tool's own checks"
    assert seen["429"] + seen["tool 429"] < CI / 10, "what is refused for its rate tries nothing"


@pytest.mark.soak
def test_malformed_requests_for_long(whole_run, tmp_path: Path) -> None:
    fuzz(whole_run, tmp_path, random.SystemRandom().randrange(1 << 30), SOAK)
