"""A provider that can misbehave on request, a run with an endpoint of the LLM proxy, and a client of the endpoint."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.http_server import ClosingServer
from tests.waiting import until
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import is_locked
from tuneloop.core.settings import Settings
from tuneloop.tools.llm_proxy import launcher
from tuneloop.tools.llm_proxy.access import Access, data_access
from tuneloop.tools.llm_proxy.ledger import Entry, read_ledger

CANARY = "sk-canary-0123456789abcdef"
CHAT = "/v1/chat/completions"
PRICES = {"strong": [1.0, 2.0], "weak": [0.1, 0.2]}
Behaviour = Callable[[BaseHTTPRequestHandler, dict[str, Any]], bool]


@dataclass
class Provider:
    """`next`: behaviours of the requests to come, in order; one that returns False lets the usual answer follow."""

    url: str = ""
    seen: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    next: list[Behaviour] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    waiting: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    at_once: int = 0
    most_at_once: int = 0
    pieces: int = 5


def send(h: BaseHTTPRequestHandler, status: int, body: Any, **headers: str) -> bool:
    """A JSON answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    h.send_response(status)
    for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
        h.send_header(name.replace("_", "-"), value)
    h.end_headers()
    h.wfile.write(data)
    return True


def error(status: int, message: str = "boom", code: str = "boom", **headers: str) -> Behaviour:
    """Answer with an error."""
    return lambda h, _: send(h, status, {"error": {"message": message, "code": code}}, **headers)


def handler(provider: Provider) -> type[BaseHTTPRequestHandler]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: Any) -> None:
            """Silent."""

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                provider.seen.append(request)
                provider.keys.append(str(self.headers["Authorization"]))
                behaviour = provider.next.pop(0) if provider.next else None
                provider.at_once += 1
                provider.most_at_once = max(provider.most_at_once, provider.at_once)
            try:
                if behaviour is None or not behaviour(self, request):
                    stream(self, request, provider) if request.get("stream") else usual(self, request)
            except (TypeError, LookupError, AttributeError):
                error(400, "this makes no sense")(self, request)
            except OSError:
                self.close_connection = True
            finally:
                with lock:
                    provider.at_once -= 1

    return Handler


def usual(h: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
    """Ten tokens in, five out, and the last message back; an embedding is a number."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    if "input" in request:
        send(h, 200, {"object": "list", "data": [{"embedding": [0.5], "index": 0}], "usage": {"prompt_tokens": 10}})
        return
    text = f"echo {request['messages'][-1]['content']}" if "messages" in request else "echo"
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message, "text": text}
    send(
        h,
        200,
        {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": request["model"],
            "choices": [choice],
            "usage": usage,
        },
    )


def stream(h: BaseHTTPRequestHandler, request: dict[str, Any], provider: Provider) -> None:
    """As many pieces as the provider has, usage when request for."""
    h.send_response(200)
    h.send_header("Content-Type", "text/event-stream")
    h.send_header("Connection", "close")
    h.end_headers()
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": request["model"]}
    for i in range(provider.pieces):
        piece(h, {**head, "choices": [{"index": 0, "delta": {"content": f"w{i} "}, "finish_reason": None}]})
    if request.get("stream_options", {}).get("include_usage"):
        piece(h, {**head, "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": provider.pieces}})
    h.wfile.write(b"data: [DONE]\n\n")
    h.close_connection = True


def piece(h: BaseHTTPRequestHandler, event: dict[str, Any]) -> None:
    """One event."""
    h.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
    h.wfile.flush()


@pytest.fixture
def provider() -> Iterator[Provider]:
    """On a free port of loopback."""
    provider = Provider()

    server = ClosingServer(("127.0.0.1", 0), handler(provider))
    provider.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield provider
    provider.gate.set()
    server.shutdown()
    server.server_close()


@dataclass
class JobEndpoint:
    """One open endpoint of a run's proxy."""

    run: RunFolder
    settings: Settings
    jobs: Path
    folder: Path
    token: str

    @property
    def proxy(self) -> Path:
        return self.folder.parent

    @property
    def socket(self) -> Path:
        return self.folder / "in" / "socket"

    @property
    def pid(self) -> int:
        """The proxy's process."""
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if str(self.proxy).encode() in entry.read_bytes() and b"llm_proxy.server" in entry.read_bytes():
                    return int(entry.parts[2])
            except OSError:
                continue
        raise AssertionError("no proxy runs")

    @property
    def alive(self) -> bool:
        return is_locked(self.proxy / "lock")

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        os.kill(self.pid, signal.SIGKILL)
        until(lambda: not self.alive)

    @contextmanager
    def client(self, **options: Any) -> Iterator[httpx2.Client]:
        """Speaks through the socket with the job's token."""
        handle = os.open(self.folder / "in", os.O_PATH)
        transport = httpx2.HTTPTransport(uds=f"/proc/self/fd/{handle}/socket")
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            with httpx2.Client(
                transport=transport, base_url="http://proxy", headers=headers, timeout=60, **options
            ) as client:
                yield client
        finally:
            os.close(handle)

    def ask(self, text: str = "hello", model: str = "strong", path: str = CHAT, **more: Any) -> httpx2.Response:
        """One chat request."""
        with self.client() as client:
            return client.post(path, json={"model": model, "messages": [{"role": "user", "content": text}], **more})

    @property
    def ledger(self) -> list[Entry]:
        return list(read_ledger(self.run.ledger))

    def end_job(self) -> None:
        """The job is over, long ago."""
        (self.jobs / "build_data.1").mkdir(exist_ok=True, parents=True)
        (self.jobs / "build_data.1" / "exit.json").write_text("{}")
        for path in (self.folder / "endpoint.json", self.jobs / "build_data.1" / "exit.json"):
            os.utime(path, (time.time() - 100, time.time() - 100))


MakeEndpoint = Callable[..., JobEndpoint]


def access_of(settings: Settings) -> Access:
    access = data_access(settings)
    assert access is not None
    return access


@pytest.fixture
def make_endpoint(tmp_path: Path, provider: Provider) -> Iterator[MakeEndpoint]:
    """`make_endpoint(SETTING=…)`: a run whose data script may ask `strong` and `weak`."""
    made: list[JobEndpoint] = []

    def build(root: Path = tmp_path / "home", **more: Any) -> JobEndpoint:
        given = {"OPENAI_API_KEY": CANARY, "OPENAI_API_BASE": provider.url, "FT_STRONG_MODELS": ["strong"]}
        prices = json.dumps(PRICES)
        settings = Settings(
            **{"FT_FILE_PATH": root, **given, "FT_WEAK_MODELS": ["weak"], "TUNELOOP_API_PRICES": prices, **more}
        )
        run = settings.home.run("r")
        jobs = run.experiment(1).jobs
        jobs.mkdir(parents=True, exist_ok=True)
        folder = launcher.proxy_folder(run, settings) / launcher.endpoint_name(run, jobs, "build_data")
        access = access_of(settings)
        token = launcher.open_endpoint(run, settings, folder, jobs=jobs, name="build_data", access=access)
        made.append(JobEndpoint(run, settings, jobs, folder, token))
        return made[-1]

    yield build
    for endpoint in made:
        if endpoint.alive:
            endpoint.kill()


@pytest.fixture
def endpoint(make_endpoint: MakeEndpoint) -> JobEndpoint:
    """An endpoint with the default settings."""
    return make_endpoint()


def tree_holds(root: Path, word: str) -> list[str]:
    """Files below `root` in which `word` stands."""
    found = []
    for path in root.rglob("*"):
        if path.is_file() and re.search(re.escape(word).encode(), path.read_bytes()):
            found.append(str(path))
    return found
