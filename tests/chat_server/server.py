"""The server: real HTTP in threads; answers are scripted, what was asked is kept with its headers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Literal

from tests.chat_server.faults import Cut, Garbage, Hang, Refuse
from tests.chat_server.replies import Reply
from tests.http_server import ClosingServer

Said = str | tuple[int, Any] | Reply | Refuse | Cut | Hang | Garbage
Say = Callable[[dict[str, Any]], Said]
Power = Literal["yes", "ignored", "refused"]
POWERS = ("tools", "response_format", "stream_options", "temperature")


@dataclass
class Chat:
    """`say`: what a request gets. `seen`, `heads`: requests and their headers; `keys`: what they came with.

    `powers`: what the provider makes of fields of a request, `yes` where nothing is said.
    """

    say: Say
    url: str = ""
    models: tuple[str, ...] = ()
    key: str = ""
    powers: dict[str, Power] = field(default_factory=dict)
    seen: list[dict[str, Any]] = field(default_factory=list)
    heads: list[dict[str, str]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def prompts(self) -> list[str]:
        """What was asked, in the order of arrival."""
        return [text_of(asked) for asked in self.seen]

    def says(self, asked: dict[str, Any]) -> Said:
        """The answer, as far as the provider's powers go."""
        for name in POWERS:
            if name in asked and self.powers.get(name) == "refused":
                return Refuse(400, f"Unsupported parameter: '{name}' is not supported with this model.", "unsupported")
        said = self.say(asked)
        if isinstance(said, Reply) and ("tools" not in asked or self.powers.get("tools") == "ignored"):
            return said.spelt() if '"tool"' in json.dumps(asked["messages"][0]).replace("\\", "") else _prose(said)
        return said


def _prose(said: Reply) -> Reply:
    """A model that was given tools it can't see and no other way to call one."""
    named = ", ".join(call.name for call in said.calls)
    return Reply(f"{said.text} I would now use {named}." if named else said.text, refusal=said.refusal)


def text_of(asked: dict[str, Any]) -> str:
    """What a request asks."""
    return str(asked["messages"][-1]["content"] if "messages" in asked else asked["prompt"])


def handler(chat: Chat) -> type[BaseHTTPRequestHandler]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: Any) -> None:
            """Silent."""

        def refused(self) -> bool:
            if not chat.key or self.headers["Authorization"] == f"Bearer {chat.key}":
                return False
            self.send(401, {"error": {"message": "wrong key", "code": "invalid_api_key"}})
            return True

        def do_GET(self) -> None:
            if not self.refused():
                self.send(200 if chat.models else 404, {"data": [{"id": name} for name in chat.models]})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.refused():
                return
            with lock:
                chat.seen.append(asked)
                chat.heads.append({name.lower(): value for name, value in self.headers.items()})
                chat.keys.append(str(self.headers["Authorization"]))
            with suppress(ConnectionError):  # who asked went away
                self.answer(asked, chat.says(asked))

        def answer(self, asked: dict[str, Any], said: Said) -> None:
            match said:
                case str():
                    self.whole(asked, Reply(said))
                case (status, body):
                    self.send(status, body)
                case Refuse():
                    self.send(said.status, {"error": {"message": said.message, "code": said.code}}, said.headers)
                case Garbage():
                    self.send(200, said.body)
                case Hang() | Cut():
                    self.broken(asked, said)
                case Reply():
                    self.stream(asked, said) if asked.get("stream") else self.whole(asked, said)

        def whole(self, asked: dict[str, Any], said: Reply) -> None:
            choice = {"index": 0, "finish_reason": said.ends, "message": said.message(), "text": said.text}
            self.send(200, {"id": "x", "object": "chat.completion", "created": 1, "model": asked["model"],
                            "choices": [choice], "usage": said.tokens})  # fmt: skip

        def stream(self, asked: dict[str, Any], said: Reply) -> None:
            self.begin()
            for delta in said.deltas():
                self.piece(asked, [{"index": 0, "delta": delta, "finish_reason": None}])
            self.piece(asked, [{"index": 0, "delta": {}, "finish_reason": said.ends}])
            if (asked.get("stream_options") or {}).get("include_usage"):
                self.piece(asked, [], usage=said.tokens)
            self.wfile.write(b"data: [DONE]\n\n")

        def broken(self, asked: dict[str, Any], said: Hang | Cut) -> None:
            """Some pieces, then silence or the end of the connection; without streaming half of a body."""
            if asked.get("stream") and (said.pieces or isinstance(said, Cut)):
                self.begin()
                for delta, _ in zip(said.reply.deltas(), range(said.pieces), strict=False):
                    self.piece(asked, [{"index": 0, "delta": delta, "finish_reason": None}])
            elif isinstance(said, Cut):
                self.head(200, {"Content-Length": "1000"})
                self.wfile.write(b'{"id": "x", "choices": [')
            self.wfile.flush()
            self.close_connection = True
            if isinstance(said, Hang):
                chat.over.wait()

        def begin(self) -> None:
            self.head(200, {"Content-Type": "text/event-stream", "Connection": "close"})
            self.close_connection = True

        def piece(self, asked: dict[str, Any], choices: list[Any], **more: Any) -> None:
            event = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": asked["model"], **more}
            self.wfile.write(b"data: " + json.dumps({**event, "choices": choices}).encode() + b"\n\n")

        def head(self, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def send(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            kind = {"Content-Type": "application/json", "Content-Length": str(len(data))}
            self.head(status, {**kind, **(headers or {})})
            self.wfile.write(data)

    return Handler


@contextmanager
def chat_server(say: Say, **more: Any) -> Iterator[Chat]:
    """On a free port of loopback."""
    chat = Chat(say, **more)

    server = ClosingServer(("127.0.0.1", 0), handler(chat))
    chat.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield chat
    finally:
        chat.over.set()
        server.shutdown()
        server.server_close()
