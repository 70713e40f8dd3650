"""The proxy's process: one per run, detached, started by `launcher.py` through `sandboxes/detached.py`.

It reads providers and keys from its standard input and writes them nowhere. Each job has a folder with `endpoint.json`
and `in/socket`; a sandbox sees only `in/`. The process ends when no job needs it. Other users cannot read its memory, and
it leaves no core dump.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import resource
import socket
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from pydantic import BaseModel, ConfigDict
from uvicorn.server import ServerState

from tuneloop.core.budget import LlmQuota
from tuneloop.core.locks import acquire, is_locked, open_lock
from tuneloop.sandboxes.jobs import newest_attempt
from tuneloop.tools.housekeeping.disk import remove_path
from tuneloop.tools.llm_proxy.access import EndpointConfig, Upstream
from tuneloop.tools.llm_proxy.answer_cache import AnswerCache
from tuneloop.tools.llm_proxy.endpoint import Endpoint
from tuneloop.tools.llm_proxy.http import HEAD_BYTES, EndpointProtocol, Exchange
from tuneloop.tools.llm_proxy.ledger import Ledger, read_ledger
from tuneloop.tools.llm_proxy.quota import Amount, Quota, amount_of
from tuneloop.tools.llm_proxy.upstream import Provider

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

PR_SET_DUMPABLE = 4
CONFIGS = "[!.]*/endpoint.json"
POLL_SECONDS, END_CHECK_SECONDS = 0.1, 1.0  # between looks for new endpoints, for jobs that have ended
GRACE_SECONDS = 10.0  # from a job's end to the proxy's
IDLE_SECONDS = 3600.0  # without a request, after which a job without a recorded end counts as gone
MAX_LOGGED_ERRORS = 100
MAX_CONNECTIONS = BACKLOG = 1024  # of one endpoint; beyond it uvicorn answers 503


class ServerConfig(BaseModel):
    """What the process reads from its standard input."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    upstreams: dict[str, Upstream]
    ledger: Path
    answers: Path


class ProxyServer:
    """All endpoints of a run."""

    def __init__(self, folder: Path, config: ServerConfig) -> None:
        self._folder, self._config = folder, config
        self._ledger = Ledger(config.ledger, folder / "begun.jsonl")
        self._cache = AnswerCache(config.answers)
        self._run = Quota("this run", LlmQuota())
        self._update_used()
        self._providers: dict[str, Provider] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._configs: dict[str, tuple[int, EndpointConfig]] = {}
        self._states: list[ServerState] = []  # uvicorn's connections and tasks of each endpoint
        self._errors = 0

    async def run(self) -> None:
        """Serve until no job needs it."""
        asyncio.get_running_loop().set_exception_handler(self._log_error)
        checked = time.monotonic()
        while True:
            try:
                await self._open_endpoints()
                if time.monotonic() - checked > END_CHECK_SECONDS:
                    if self._may_end():
                        return self._remove_endpoints()
                    checked = time.monotonic()
            except OSError as e:  # a job may use all descriptors; the others keep their endpoints
                self._log_error(asyncio.get_running_loop(), {"exception": e})
            await asyncio.sleep(POLL_SECONDS)

    def _update_used(self) -> None:
        """Count what the run has used by the ledger, which its agents write as well; the count never falls."""
        booked = sum((amount_of(entry) for entry in read_ledger(self._config.ledger)), start=Amount())
        self._run.used = booked.maximum(self._run.used)

    async def _open_endpoints(self) -> None:
        """Open endpoints whose configuration is new or changed."""
        configs = sorted(self._folder.glob(CONFIGS), key=lambda p: p.stat().st_mtime_ns)
        for path in configs:  # the newest says what the run may use
            stamp = path.stat().st_mtime_ns
            name = path.parent.name
            if name in self._configs and self._configs[name][0] == stamp:
                continue
            config = EndpointConfig.model_validate_json(path.read_bytes())
            known = self._configs.get(name)
            self._run.allowance = config.access.run
            self._update_used()
            if known is None or known[1] != config:
                provider = partial(self._provider, config.access.purpose)
                self._endpoints[name] = Endpoint(name, config, self._run, self._ledger, self._cache, provider)
            if known is None:
                await self._listen(name, path.parent / "in")
            self._configs[name] = (stamp, config)

    async def _listen(self, name: str, folder: Path) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await self._endpoints[name].serve(Exchange(scope, receive, send))

        config, state = uvicorn_config(app), ServerState()
        self._states.append(state)
        protocol = partial(EndpointProtocol, config, state, {})
        await asyncio.get_running_loop().create_unix_server(protocol, sock=listening_socket(folder), backlog=BACKLOG)

    def _provider(self, purpose: str) -> Provider:
        if purpose not in self._providers:
            self._providers[purpose] = Provider(self._config.upstreams[purpose])
        return self._providers[purpose]

    def _may_end(self) -> bool:
        """Whether every job has ended; then no endpoint can be opened before the process is gone."""
        if not self._folder.is_dir():
            return True
        if not self._all_ended():
            return False
        handle = open_lock(self._folder / "start.lock")
        if acquire(handle) and self._all_ended():
            return True
        os.close(handle)
        return False

    def _all_ended(self) -> bool:
        # An answer under way is paid for: it is awaited and cached, also when its client has left.
        idle = not any(state.tasks for state in self._states)
        return idle and all(has_ended(path, self._last_request(path)) for path in self._folder.glob(CONFIGS))

    def _last_request(self, path: Path) -> float:
        endpoint = self._endpoints.get(path.parent.name)
        return endpoint.last_request if endpoint else time.time()

    def _log_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error's type and place, not its message, which may quote a request; the proxy goes on."""
        self._errors += 1
        error = context.get("exception")
        if self._errors <= MAX_LOGGED_ERRORS:
            frame = error.__traceback__ if error else None
            while frame and frame.tb_next:
                frame = frame.tb_next
            place = f" at {Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame else ""
            sys.stderr.write(f"{type(error).__name__ if error else context.get('message')}{place}\n")

    def _remove_endpoints(self) -> None:
        """Remove all endpoints; after a crash they stay, and the next look at a job starts another proxy."""
        for path in self._folder.glob(CONFIGS):
            remove_path(path.parent)

    async def close(self) -> None:
        """Close providers and ledger."""
        for provider in self._providers.values():
            await provider.close()
        self._ledger.close()


def uvicorn_config(app: ASGIApp) -> uvicorn.Config:
    """HTTP only, bounded and without logs: the proxy logs errors itself, without what a request says."""
    return uvicorn.Config(
        app,
        interface="asgi3",
        http=EndpointProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level=logging.CRITICAL,
        access_log=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )


def listening_socket(folder: Path) -> socket.socket:
    """A socket in `folder`, whose path may be long; it gets its name when it listens, and every uid may connect."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        part = folder / ".socket"
        part.unlink(missing_ok=True)
        server.bind(f"/proc/self/fd/{handle}/.socket")
        part.chmod(0o666)
        server.listen(BACKLOG)
        server.setblocking(False)
        part.replace(folder / "socket")
    finally:
        os.close(handle)
    return server


def has_ended(path: Path, last_request: float) -> bool:
    """Whether the job behind an endpoint has ended some time ago, or is gone; a live job may be idle for long."""
    config = EndpointConfig.model_validate_json(path.read_bytes())
    job = newest_attempt(config.jobs, config.name)
    opened, now = path.stat().st_mtime, time.time()
    if job is not None and (job / "exit.json").exists():
        return now - max(opened, (job / "exit.json").stat().st_mtime) > GRACE_SECONDS
    return now - max(opened, last_request) > IDLE_SECONDS and not (job is not None and is_locked(job / "lock"))


async def serve(folder: Path, config: ServerConfig) -> None:
    """Serve until no job needs the proxy."""
    server = ProxyServer(folder, config)
    try:
        await server.run()
    finally:
        await server.close()


def main(folder: str, lock: str) -> None:  # noqa: ARG001 - whose descriptor is held open until the end
    """Read the configuration, detach, serve."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192) if hard > 0 else 8192, hard))
    config = ServerConfig.model_validate_json(sys.stdin.buffer.read())
    if os.fork():
        os._exit(0)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    asyncio.run(serve(Path(folder), config))
