"""Serve the page until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable

import uvicorn

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.settings import Settings
from tuneloop.mcp_servers.middleware import is_loopback_address
from tuneloop.tools.llm_proxy.http_protocol import BoundedH11Protocol
from tuneloop.ui.app import build_app
from tuneloop.ui.guard import LOGIN

CONNECTIONS = 100


def serve(settings: Settings, host: str, port: int, say: Callable[[str], None]) -> None:
    """Print the link, and serve. Raises InvalidRequestError for a folder without runs or a port that is taken."""
    home = settings.home
    if not home.root.is_dir():
        raise InvalidRequestError(f"{home.root} is no folder; right is one with runs: --log-dir, or FT_FILE_PATH")
    listener = listen(host, port)
    port = listener.getsockname()[1]
    token = secrets.token_urlsafe(32)
    app = build_app(
        settings, token, () if is_loopback_address(host) or host == "localhost" else (host, socket.gethostname())
    )
    shown = f"[{host}]" if ":" in host else socket.gethostname() if host in ("0.0.0.0", "::") else host  # noqa: S104
    say(f"runs of {home.root}: http://{shown}:{port}{LOGIN}?token={token}")
    say("the link is for you alone: it lets in whoever has it. Ctrl-C ends the page; runs go on")
    config = uvicorn.Config(
        app, http=BoundedH11Protocol, ws="none", limit_concurrency=CONNECTIONS, log_level="warning",
        proxy_headers=False, server_header=False, timeout_graceful_shutdown=1,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises InvalidRequestError in one line."""
    try:
        kind = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        raise InvalidRequestError(
            f"cannot listen at {host}:{port}: {error.strerror or error}; right is another --port"
        ) from error
    listener.listen()
    return listener
