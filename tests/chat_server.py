"""An OpenAI-compatible endpoint that says what a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Say = Callable[[dict[str, Any]], "str | tuple[int, Any]"]


@dataclass
class Chat:
    """`say`: the text that a request gets, or a status and a JSON body. `seen`: requests; `keys`: what they came with."""

    say: Say
    url: str = ""
    models: tuple[str, ...] = ()
    key: str = ""
    seen: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    @property
    def prompts(self) -> list[str]:
        """What was asked, in the order of arrival."""
        return [text_of(asked) for asked in self.seen]


def text_of(asked: dict[str, Any]) -> str:
    """What a request asks."""
    return str(asked["messages"][-1]["content"] if "messages" in asked else asked["prompt"])


def handler(chat: Chat) -> type[BaseHTTPRequestHandler]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

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
                chat.keys.append(str(self.headers["Authorization"]))
            said = chat.say(asked)
            if not isinstance(said, str):
                self.send(*said)
                return
            choice = {"index": 0, "finish_reason": "stop", "message": {"content": said}, "text": said}
            usage = {"prompt_tokens": 10, "completion_tokens": 5}
            self.send(200, {"model": asked["model"], "choices": [choice], "usage": usage})

        def send(self, status: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


@contextmanager
def chat_server(say: Say, **more: Any) -> Iterator[Chat]:
    """On a free port of loopback."""
    chat = Chat(say, **more)

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), handler(chat))
    chat.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield chat
    finally:
        server.shutdown()
        server.server_close()
