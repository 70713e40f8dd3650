"""HTTP of the local hubs: requests are noted, faults happen, bodies are sent in ranges."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, Literal

from tests.http_server import ClosingServer
from tests.hub.faults import SOUND, Asked, Fault

PIECE = 65536
NONE: Mapping[str, str] = {}
RANGE = re.compile(r"bytes=(\d+)-(\d*)")


class Notes:
    """What was asked and sent, and what is to go wrong."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.sent: Counter[str] = Counter()
        self.faults: list[Fault] = []
        self.lock = threading.Lock()

    def fail(self, pattern: str, **kind: Any) -> Fault:
        """Let requests that `pattern` finds go wrong; see Fault."""
        fault = Fault(pattern, **kind)
        with self.lock:
            self.faults.append(fault)
        return fault

    def note(self, asked: Asked) -> Fault:
        """Write the request down; what is to happen to it."""
        with self.lock:
            self.asked.append(asked)
            return next((fault for fault in self.faults if fault.meets(asked)), SOUND)

    def count(self, pattern: str) -> int:
        """Requests that the pattern finds in `METHOD path`."""
        return sum(re.search(pattern, f"{a.method} {a.path}") is not None for a in self.asked)


class Sender(BaseHTTPRequestHandler):
    """A handler whose subclass answers in `answer`."""

    protocol_version = "HTTP/1.1"
    server_kind: Literal["hub", "cdn"] = "hub"
    notes: Notes
    fault: Fault = SOUND

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    def answer(self) -> None:
        """Reply to one request."""
        raise NotImplementedError

    def handle_one(self) -> None:
        """Note the request, then reply, wrongly where a fault says so."""
        asked = Asked(
            self.server_kind, self.command, self.path, self.headers.get("Range"), self.headers.get("Authorization")
        )
        self.fault = self.notes.note(asked)
        if self.fault.status is not None:
            self.reply(self.fault.status, self.fault.body, self.fault.headers)
        else:
            self.answer()

    do_GET = do_HEAD = handle_one

    def reply(self, code: int, body: bytes = b"", headers: Mapping[str, str] = NONE) -> None:
        """A short answer."""
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def reply_json(self, value: object, code: int = 200, headers: Mapping[str, str] = NONE) -> None:
        """A short answer in JSON."""
        self.reply(code, json.dumps(value).encode(), {"Content_Type": "application/json", **headers})

    def send_file(self, name: str, data: bytes, headers: Mapping[str, str] = NONE) -> None:
        """A file, or the range of it that was asked for; what goes out is counted under `name`."""
        data = self.fault.change(data)
        part = None if self.fault.ignore_range else RANGE.fullmatch(self.headers.get("Range") or "")
        begin = int(part[1]) if part else 0
        end = min(int(part[2]) + 1, len(data)) if part and part[2] else len(data)
        if part and begin >= len(data):
            return self.reply(416, headers={"Content_Range": f"bytes */{len(data)}"})
        self.send_response(206 if part else 200)
        if part:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(data)}")
        for key, value in {"Accept_Ranges": "bytes", **headers}.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(end - begin))
        self.end_headers()
        if self.command != "HEAD":
            self._send(name, data[begin:end])
        return None

    def _send(self, name: str, body: bytes) -> None:
        stop = self.fault.cut if self.fault.cut is not None else self.fault.hold
        self._write(name, body if stop is None else body[:stop])
        if self.fault.hold is not None:
            self.fault.held.set()
            self.fault.released.wait()
        if stop is not None:
            self.close_connection = True

    def _write(self, name: str, body: bytes) -> None:
        try:
            for begin in range(0, len(body), PIECE):
                piece = body[begin : begin + PIECE]
                self.wfile.write(piece)
                with self.notes.lock:
                    self.notes.sent[name] += len(piece)
        except OSError:
            self.close_connection = True  # who asked is gone


class Server(ClosingServer):
    """On loopback, at a free port."""

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def serving(handler: type[Sender]) -> Iterator[Server]:
    """A server while the block lasts."""
    server = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
