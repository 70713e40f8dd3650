"""Malformed requests to an MCP server over HTTP, drawn from a seed: bytes, HTTP, JSON, JSON-RPC, arguments of tools."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
METHODS = (
    *("initialize", "ping", "tools/list", "tools/call", "resources/list", "resources/read", "resources/templates/list"),
    *("resources/subscribe", "prompts/list", "prompts/get", "completion/complete", "logging/setLevel"),
    *("notifications/initialized", "notifications/cancelled", "notifications/progress", "roots/list", "tasks/get"),
    *("server/discover", "subscriptions/listen", "sampling/createMessage", "elicitation/create", "tasks/cancel"),
)
# Tools that start jobs where their arguments are right: an experiment that is there is not offered to them.
ACTING = {"launch", "try_script", "stop"}
PATHS = (
    *("../../../../etc/passwd", "/etc/passwd", "..", ".", "", "a/../../b", "....//....//etc/passwd", "~/.ssh/id_rsa"),
    *("C:\\Windows\\win.ini", "..\\..\\x", "\\\\host\\share", "file:///etc/passwd", "%2e%2e%2fetc%2fpasswd", "a\0b"),
    *(
        "con",
        "NUL.txt",
        "a" * 5000,
        "/" * 3000,
        "x\n\r\ty",
        "\u202etxt.exe",
        "．．／etc",
        "\udcff",
        "\ud800",
        "🤖" * 99,
    ),
    *("/proc/self/environ", "/dev/zero", "../../benchmarks/wordproblems/sealed/test.jsonl", "sealed", "-rf", "$(id)"),
)
NUMBERS = (-1, 0, 1, 2, 50, 51, 10**6, 2**31, 2**53, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308)
TEXTS = (
    *("", " ", "0", "1e999", "NaN", "null", "{{7*7}}", "%s%s%n", "' OR 1=1 --", "<script>", "__import__('os')"),
    *("!!python/object/apply:os.system ['id']", "a: &a [*a, *a]", "[" * 5000, "{" * 5000, "lora " * 700, "-" * 3999),
    *("x: " + "9" * 5000, "é" * 3000, "\u0000", "a" * 90_000, "(a+)+$" * 300, "=" * 4000, "_" * 4000, "compare " * 400),
    *("def process():\n" + "  " * 9000 + "pass", "(" * 3000, "import os; os.system('id')", "a." * 3000, "\ud834"),
)
OTHERS: tuple[Any, ...] = (
    None,
    True,
    False,
    [],
    {},
    [[]],
    [None] * 99,
    {"a": {"b": {}}},
    {"": ""},
    float("nan"),
    float("inf"),
)


@dataclass(frozen=True)
class Request:
    """What is sent: `raw` bytes to a socket, or method, path, headers and body; `tool` where a tool's code answers."""

    raw: bytes | None = None
    method: str = "POST"
    path: str = "/mcp"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    tool: bool = False


@dataclass
class Draw:
    """The requests of one server; `tools`: its list as it gave it; `session`: headers of a session that is open."""

    rng: random.Random
    tools: Sequence[dict[str, Any]]
    session: dict[str, str]

    def request(self) -> Request:
        """The next one."""
        kinds: tuple[tuple[Callable[[], Request], int], ...] = (
            (self.bytes, 2),
            (self.http, 2),
            (self.json, 2),
            (self.rpc, 4),
            (self.call, 10),
        )
        return self.rng.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]()

    def bytes(self) -> Request:
        """No HTTP, or nearly."""
        r = self.rng
        head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        return Request(
            raw=r.choice(
                (
                    r.randbytes(r.randint(1, 2000)),
                    b"\x16\x03\x01" + r.randbytes(200),
                    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                    b"GET /mcp\r\n\r\n",
                    b"GET http://127.0.0.1:1/mcp HTTP/1.1\r\nHost: x\r\n\r\n",
                    b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
                    head[: r.randint(1, len(head))],
                    head + b"X: " + b"a" * r.choice((100, 70_000)) + b"\r\n\r\n",
                    head + b"".join(b"X%d: y\r\n" % i for i in range(r.choice((10, 5000)))) + b"\r\n",
                    head + b"Content-Length: -1\r\n\r\n",
                    head + b"Content-Length: " + b"9" * 40 + b"\r\n\r\nabc",
                    head + b"Content-Length: 3\r\nContent-Length: 9\r\n\r\nabc",
                    head + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
                    head + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\nx",
                    head + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
                    head + b"Host: evil.example\r\n\r\n",
                    head + b"Folded: a\r\n b\r\n\r\n",
                    head + b"Bad\0Name: x\r\n\r\n",
                    head + b"Expect: 100-continue\r\nContent-Length: 10\r\n\r\n",
                    head + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
                    b"POST /mcp\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                    b"POST " + b"/a" * 9000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                    head + b"\r\n" + head + b"\r\n" + r.randbytes(30),
                )
            )
        )

    def http(self) -> Request:
        """HTTP that says the wrong thing around a right body."""
        r = self.rng
        headers = dict(JSON | self.session)
        name, values = r.choice(
            (
                (
                    "Content-Type",
                    ("text/plain", "application/json; charset=utf-7", "", "x" * 5000, "multipart/form-data"),
                ),
                ("Accept", ("text/html", "", "*/*;q=nan", "application/json;" * 99)),
                ("Host", ("evil.example", "", "127.0.0.1@evil.example", "[::1", "127.0.0.1:99999", "localhost\t")),
                ("Origin", ("https://evil.example", "null", "http://[", "http://localhost.evil.example", "::")),
                ("Authorization", ("Bearer wrong", "Bearer", "Basic eDp5", "", "Bearer " + "x" * 9000, "bearer \xff")),
                ("Mcp-Session-Id", ("", "x", "../..", "0" * 32, "a" * 9000, "\xff\xfe", "%00", "*")),
                ("Mcp-Protocol-Version", ("", "1999-01-01", "2026-07-28", "9" * 999, "\xe9", "2025-11-25 ")),
                ("Last-Event-Id", ("1", "x" * 999, "-1")),
                ("Content-Encoding", ("gzip", "br", "x")),
                ("X-Forwarded-Host", ("127.0.0.1",)),
            )
        )
        headers[name] = r.choice(values)
        method = r.choice(("POST", "POST", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "HEAD", "BREW"))
        if method == "DELETE":
            headers["Mcp-Session-Id"] = "0" * 32  # the open session is still needed
        places = ("/mcp", "/mcp", "/mcp/", "/mcp/../x", "//mcp", "/.env", "/%00", "/mcp?x=%ff", "/sse", "/messages/")
        return Request(method=method, path=r.choice(places), headers=headers, body=message("ping", {}, 1))

    def json(self) -> Request:
        """A body that is no JSON, or no JSON that anybody needs."""
        r = self.rng
        right = message("tools/list", {}, 1)
        deep = r.choice((100, 1000, 100_000))
        body = r.choice(
            (
                b"",
                b"null",
                b"[]",
                b"[" + right + b"]",
                b"[" + b",".join([right] * 300) + b"]",
                right[: r.randint(1, len(right) - 1)],
                right + right,
                b"\xef\xbb\xbf" + right,
                right.decode().encode("utf-16"),
                r.randbytes(r.randint(1, 999)),
                b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "\xff\xfe"}}',
                b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "\\ud800"}}',
                b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b', "method": "ping"}',
                b'{"jsonrpc": "2.0", "id": NaN, "method": "ping"}',
                b'{"jsonrpc": "2.0", "id": 1e999, "method": "ping"}',
                b'{"id": 1, "id": 2, "jsonrpc": "2.0", "jsonrpc": "1.0", "method": "ping", "method": "x"}',
                b"[" * deep + b"]" * deep,
                b'{"a":' * deep + b"1" + b"}" * deep,
                b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": ' + b"[" * deep + b"]" * deep + b"}}",
                b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"m" * 100_000 + b'"}',
            )
        )
        return Request(headers=JSON | self.session, body=body)

    def rpc(self) -> Request:
        """JSON-RPC that is wrong, or a method of MCP with the wrong parameters; with a session or without."""
        r = self.rng
        name = r.choice(("x" * 999, "", "../tools", *(METHODS * 2)))
        params = r.choice((self.some(), {}, self.params(name), self.params(name)))
        value: dict[str, Any] = {"jsonrpc": "2.0", "id": r.randint(2, 10**6), "method": name, "params": params}
        if r.random() < 0.4:
            part = r.choice(("jsonrpc", "id", "method", "params"))
            value[part] = self.some()
            if r.random() < 0.3:
                del value[part]
        if r.random() < 0.1:
            value |= {"result": {}, "error": {"code": 1, "message": "x"}}
        session = r.choice((self.session, self.session, {}, {"Mcp-Protocol-Version": "2026-07-28"}))
        return Request(headers=JSON | session, body=dump(value))

    def params(self, method: str) -> dict[str, Any]:
        """Nearly right ones."""
        r = self.rng
        uri = r.choice(("params://file/", "params://parameter/", "params://", "file://", "")) + self.path()
        return {
            "initialize": {"protocolVersion": self.some(), "capabilities": self.some(), "clientInfo": self.some()},
            "resources/read": {"uri": uri},
            "resources/subscribe": {"uri": uri},
            "prompts/get": {
                "name": r.choice(("write_config", "explain_config", self.path())),
                "arguments": self.some(),
            },
            "completion/complete": {
                "ref": {"type": "ref/resource", "uri": uri},
                "argument": {"name": "name", "value": "l"},
            },
            "logging/setLevel": {"level": r.choice(("debug", "x", self.path()))},
            "notifications/cancelled": {"requestId": self.some()},
            "tools/call": {
                "name": r.choice((self.path(), "", *(t["name"] for t in self.tools))),
                "arguments": self.some(),
            },
        }.get(method, {"cursor": self.some(), "_meta": self.some()})

    def call(self) -> Request:
        """A tool, with arguments of which at least one is no good."""
        r = self.rng
        tool = r.choice(list(self.tools))
        known = tool["inputSchema"].get("properties", {})
        arguments = {
            name: self.argument(tool["name"], name, schema) for name, schema in known.items() if r.random() < 0.85
        }
        if r.random() < 0.1:
            arguments[r.choice(("self", "scope", "__class__", self.path()))] = self.some()
        params = {"name": tool["name"], "arguments": arguments}
        return Request(headers=JSON | self.session, body=message("tools/call", params, r.randint(2, 10**6)), tool=True)

    def argument(self, tool: str, name: str, schema: Mapping[str, Any]) -> Any:
        """Of the right type but for its value, or of another type."""
        r = self.rng
        if name == "experiment":
            there = () if tool in ACTING else (0, 1)
            return r.choice(
                (*there, 2, 999, *(n for n in NUMBERS if n not in {0, 1}), "1/..", "../1", "one", None, [1], 2.5)
            )
        if name in ("run", "runs") and r.random() < 0.5:  # it is finished: there is nothing to steer, stop or resume
            return "whole" if name == "run" else ["whole", r.choice(("whole", self.path()))]
        kinds = {schema.get("type")} | {part.get("type") for part in schema.get("anyOf", ())}
        right: list[Any] = [*schema.get("enum", ())]
        right += [*NUMBERS] * bool(kinds & {"integer", "number"}) + [*TEXTS, *PATHS] * ("string" in kinds)
        right += [[r.choice((*TEXTS, *PATHS)) for _ in range(r.randint(0, 5))]] * ("array" in kinds)
        known = (
            ("textbook.csv", "validation") if tool == "start_run" else ("wordproblems", "textbook.csv", "validation")
        )
        right += [*known] * ("string" in kinds)
        return r.choice(right) if right and r.random() < 0.7 else self.some()

    def path(self) -> str:
        """A name that would lead elsewhere."""
        return self.rng.choice(PATHS)

    def some(self) -> Any:
        """Any value."""
        return self.rng.choice((*OTHERS, *NUMBERS, *TEXTS, *PATHS))


def message(method: str, params: Any, number: int) -> bytes:
    """A JSON-RPC request."""
    return dump({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def dump(value: Any) -> bytes:
    """As Python writes it: NaN as it is, lone surrogates escaped."""
    return json.dumps(value).encode()
