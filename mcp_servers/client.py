"""The Toolbox over MCP: servers in this process by default, over a URL or over stdio where that is configured."""

from __future__ import annotations

import asyncio
import functools
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TextIO

from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError as McpToolError
from mcp import MCPError as McpError

from tuneloop.core.errors import InfrastructureError, ToolError
from tuneloop.core.protocols import ToolCard
from tuneloop.core.settings import McpProgram
from tuneloop.mcp_servers.main import OF_A_RUN, build_named_server
from tuneloop.mcp_servers.scope import Scope

# JSON-RPC: no such method, and arguments that are none.
REFUSED = (-32601, -32602)


@asynccontextmanager
async def open_toolbox(scope: Scope, allow: tuple[str, ...] | None) -> AsyncIterator[McpToolbox]:
    """Tools of one caller; `allow` None means all of them. A client is opened when it is first needed, closed at the end."""
    async with AsyncExitStack() as opened:
        yield McpToolbox(scope, allow, opened)


class McpToolbox:
    """Tools of one caller while its clients are open."""

    def __init__(self, scope: Scope, allow: tuple[str, ...] | None, opened: AsyncExitStack) -> None:
        self.scope = scope
        self.allow = allow
        self._opened = opened
        self._clients: dict[str, Client[Any]] = {}
        self._one = asyncio.Lock()

    async def call(self, tool: str, **arguments: Any) -> Any:
        """The tool's structured answer. Raises ToolError with the server's sentence, or when the caller may not use it."""
        if self.allow is not None and tool not in self.allow:
            raise ToolError(f"tool {tool!r} is not for you; yours are {', '.join(self.allow)}")
        server, _, name = tool.partition("_")
        if server not in OF_A_RUN:
            raise ToolError(f"no server {server!r}; there are {', '.join(OF_A_RUN)}")
        client = await self._client(server)
        try:
            result = await client.call_tool(name, arguments)
        except McpToolError as e:
            raise ToolError(str(e)) from e
        except McpError as e:
            raise ToolError(e.message) if e.code in REFUSED else server_gone(server, e) from e
        except (RuntimeError, OSError) as e:
            raise server_gone(server, e) from e
        return unwrap_result(result.structured_content)

    async def names(self) -> Sequence[str]:
        """Names of the tools this caller may use."""
        return [card.name for card in await self.cards()]

    async def cards(self) -> Sequence[ToolCard]:
        """The same tools with what a model must know to use them."""
        found: list[ToolCard] = []
        for server in OF_A_RUN:
            if self.allow is not None and not any(name.startswith(f"{server}_") for name in self.allow):
                continue
            client = await self._client(server)
            try:
                offered = await client.list_tools()
            except (McpError, RuntimeError, OSError) as e:
                raise server_gone(server, e) from e
            found += [ToolCard(f"{server}_{t.name}", t.description or "", t.input_schema) for t in offered]
        return [card for card in found if self.allow is None or card.name in self.allow]

    async def _client(self, server: str) -> Client[Any]:
        async with self._one:
            if server not in self._clients:
                self._clients[server] = check_server(await self._connection(server), server)
            return self._clients[server]

    async def _connection(self, server: str) -> Client[Any]:
        settings = self.scope.settings
        how = settings.servers.get(server)
        if isinstance(how, McpProgram):
            return await self._stdio_client(server, how)
        new = (
            Client(how, auth=settings.mcp_token, timeout=self._timeout_of(server))
            if how
            else Client(_local(server, self.scope))
        )
        try:
            return await self._opened.enter_async_context(new)
        except RuntimeError as e:  # what fastmcp raises when nobody listens
            cure = f"start it with `tuneloop-mcp {server} --http`, or leave its URL out"
            raise InfrastructureError(
                f"MCP server {server} ({how or 'in this process'}) does not answer: {e}; {cure}"
            ) from e

    def _timeout_of(self, server: str) -> float | None:
        """Seconds for an answer; None: unlimited."""
        return self.scope.settings.params_timeout if server == "params" else None

    async def _stdio_client(self, server: str, how: McpProgram) -> Client[Any]:
        """A client whose server is a process that ends with it.

        The process gets what every MCP client hands on (PATH, HOME and the like), where this machine's runs lie, and what
        the program's own `env` says: no key of ours.
        """
        env = {"FT_FILE_PATH": str(self.scope.settings.home.root), **how.env}
        said = self._opened.enter_context(tempfile.TemporaryFile("w+", errors="replace"))  # noqa: SIM115 - it is closed there
        transport = StdioTransport(how.command, list(how.args), env, keep_alive=False, log_file=said)
        try:
            return await self._opened.enter_async_context(Client(transport, timeout=self._timeout_of(server)))
        except (RuntimeError, OSError, McpError) as e:
            right = f'right is e.g. {{"command": "tuneloop-mcp", "args": ["{server}"]}}'
            raise InfrastructureError(
                f"MCP server {server} ({how.command}) did not start: {last_stderr_line(said) or e}; {right}"
            ) from e


def server_gone(server: str, e: Exception) -> InfrastructureError:
    """A server that was there and answers no more."""
    return InfrastructureError(
        f"MCP server {server} stopped answering: {' '.join(str(e).split())[:300]}; `tuneloop resume` goes on"
    )


def last_stderr_line(said: TextIO) -> str:
    """The last line that a server wrote to its stderr."""
    said.seek(0)
    return next((line.strip()[:500] for line in reversed(said.read().splitlines()) if line.strip()), "")


@functools.lru_cache(maxsize=16)
def _local(server: str, scope: Scope) -> FastMCP:
    """A server in this process; made once, it serves every caller of the scope."""
    return build_named_server(server, scope)


def check_server(client: Client[Any], server: str) -> Client[Any]:
    """The client of a server that callers of a run may use. Raises InfrastructureError for one that serves the machine's owner."""
    if client.server_info is not None and client.server_info.name == f"{server}-owner":
        raise InfrastructureError(
            f"MCP server {server} was started with --owner, which is not for a run: start another without it"
        )
    return client


def unwrap_result(content: dict[str, Any] | None) -> Any:
    """MCP wraps what is no object as {"result": …}."""
    if content is not None and set(content) == {"result"}:
        return content["result"]
    return content
