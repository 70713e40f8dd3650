"""`tuneloop-mcp params|data|training|evaluation|runs`: serve one scope over stdio, or over HTTP on loopback with `--http`."""

from __future__ import annotations

import gc
import importlib
import os
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.settings import Settings, load_settings
from tuneloop.mcp_servers.scope import Scope

if TYPE_CHECKING:
    from fastmcp import FastMCP

OF_A_RUN = ("params", "data", "training", "evaluation")  # what agents and nodes of a run can reach
SERVERS = (*OF_A_RUN, "runs")
PORTS = {"params": 8124, "data": 8125, "training": 8126, "evaluation": 8127, "runs": 8128}
LOOPBACK = ("127.0.0.1", "::1", "localhost")
SHORTEST_TOKEN = 16  # characters, where strangers can guess
BUILDING = threading.Lock()  # pydantic finishes a schema at its first use, and not in two threads at once


def build_named_server(name: str, scope: Scope) -> FastMCP:
    """One of the servers. The owner's `evaluation` is a module of its own: it reaches beyond the run."""
    module = "evaluation_owner" if scope.owner and name == "evaluation" else name
    with BUILDING:
        server: FastMCP = importlib.import_module(f"tuneloop.mcp_servers.{module}").build_server(scope)
    return server


def find_run(home: Home, run_id: str | None) -> RunFolder | None:
    """The run named, else none: the newest is looked up at each call. Raises InvalidRequestError for a name that is not there."""
    if run_id is None:
        return None
    if not home.run(run_id).spec.is_file():
        raise InvalidRequestError(f"run {run_id!r} is not in {home.runs}; `tuneloop list runs` shows them")
    return home.run(run_id)


def serve_scope(
    name: str, run_id: str | None, http: bool, host: str, port: int | None, rate: float | None = None, **whose: Any
) -> None:
    """Run the server until its client or a signal ends it. `whose`: `roots` and `owner` of its scope."""
    gc.disable()  # a sixth of the start would be looking for garbage among imports, which stay
    settings = load_settings()
    os.environ.update(FASTMCP_SHOW_SERVER_BANNER="false", FASTMCP_CHECK_FOR_UPDATES="off")
    server = build_named_server(name, Scope(find_run(settings.home, run_id), settings, follow=True, **whose))
    gc.freeze()
    gc.enable()
    if not http:
        server.run(transport="stdio", show_banner=False)
        return
    check_token(host, settings.mcp_token)
    from tuneloop.mcp_servers.middleware import SingleTokenVerifier, http_options

    if settings.mcp_token:
        server.auth = SingleTokenVerifier(settings.mcp_token)
    port = port or {**PORTS, "params": settings.params_port}[name]
    check_port_free(host, port)
    click.echo(start_line(name, host, port, settings), err=True)
    server.run(
        transport="http",
        host=host,
        port=port,
        show_banner=False,
        log_level="warning",
        **http_options(settings.mcp_token, settings.mcp_rate if rate is None else rate),
    )


def check_port_free(host: str, port: int) -> None:
    """Raises InvalidRequestError where somebody listens already, or this user may not."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except OSError as e:
            own = ", or MCP_LLAMA_PORT" if port == PORTS["params"] else ""
            raise InvalidRequestError(f"port {port} on {host}: {e.strerror}; right is another --port{own}") from e


def start_line(name: str, host: str, port: int, settings: Settings) -> str:
    """Where the server listens; of the parameter server also how many fields it knows, and of which release."""
    where = f"tuneloop-mcp {name}: http://{f'[{host}]' if ':' in host else host}:{port}/mcp"
    if name != "params":
        return where
    from tuneloop.tools.config.installed import find_catalog

    try:
        found = find_catalog(settings)
    except (InvalidRequestError, InfrastructureError) as e:
        return f"{where}, no fields yet: {e}"
    return f"{where}, {len(found.parameters)} fields of LLaMA-Factory {found.versions.get('llamafactory', '')}"


def check_token(host: str, token: str | None) -> None:
    """Raises InvalidRequestError where others can reach the server and no token, or a short one, keeps them out."""
    if host in LOOPBACK:
        return
    if not token:
        raise InvalidRequestError(f"--host {host} is reachable by others: set TUNELOOP_MCP_TOKEN, or stay on 127.0.0.1")
    if len(token) < SHORTEST_TOKEN:
        raise InvalidRequestError(
            f"--host {host} is reachable by others, and TUNELOOP_MCP_TOKEN has {len(token)} characters; right are "
            f'{SHORTEST_TOKEN} or more, e.g. from python3 -c "import secrets; print(secrets.token_urlsafe())"'
        )


@click.command(epilog="Example: tuneloop-mcp data --run wordproblems-1 --http --port 8125")
@click.argument("name", type=click.Choice(SERVERS))
@click.option("--run", "run_id", help="run to serve; default: the newest")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="folder to work in: its .env is read, and `runs` and `evaluation --owner` open what lies below it",
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="for `runs` and `evaluation --owner`: a further folder whose models, data and benchmarks may be named",
)
@click.option(
    "--owner",
    is_flag=True,
    help="for `evaluation`: also models outside of runs, for you alone; agents of a run refuse such a server",
)
@click.option("--http", is_flag=True, help="streamable HTTP at /mcp instead of stdio")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="addresses other than loopback require TUNELOOP_MCP_TOKEN; further host names: FASTMCP_HTTP_ALLOWED_HOSTS='[\"NAME\"]'",
)
@click.option(
    "--port",
    type=int,
    help="default: params 8124 or MCP_LLAMA_PORT, data 8125, training 8126, evaluation 8127, runs 8128",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0),
    help="requests a second beyond loopback, twice as many at once; 0: no limit; default: TUNELOOP_MCP_RATE or 1000",
)
def command(
    name: str,
    run_id: str | None,
    folder: Path | None,
    roots: tuple[Path, ...],
    owner: bool,
    http: bool,
    host: str,
    port: int | None,
    rate: float | None,
) -> None:
    """Serve the tools of one MCP server, for Claude, an IDE or any client."""
    if name == "runs" and run_id:
        raise click.UsageError("--run: the server `runs` serves all of them")
    if owner and name != "evaluation":
        raise click.UsageError("--owner: is for the server `evaluation`")
    opened = tuple(root.resolve() for root in (*((folder,) if folder else ()), *roots))
    if folder:
        os.chdir(folder)
    serve_scope(name, run_id, http, host, port, rate, roots=opened, owner=owner)


def main() -> None:
    """Console entry."""
    try:
        command(standalone_mode=True)
    except InvalidRequestError as e:
        click.echo(f"tuneloop-mcp: {e}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
