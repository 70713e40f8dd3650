"""What agents and nodes call over MCP: servers in this process by default, over a URL or stdio where that is configured."""

from __future__ import annotations

import asyncio
import functools
import re
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TextIO

import httpx2
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.tools.base import ToolResult
from mcp import MCPError as McpError
from mcp.types import CallToolResult, TextContent

from tuneloop.core.async_bridge import run_sync
from tuneloop.core.errors import InfrastructureError, ToolError
from tuneloop.core.protocols import Answer, EvaluationStatus, Launched, ToolCard, TrainingKind, TrainingStatus
from tuneloop.core.setting_values import McpProgram
from tuneloop.mcp_servers.main import OF_A_RUN, build_named_server
from tuneloop.mcp_servers.scope import Scope
from tuneloop.mcp_servers.server import told_error

Servers = Mapping[str, McpProgram | str]
# JSON-RPC: no such method, and arguments that are none.
REFUSED = (-32601, -32602)
TOO_MANY_REQUESTS, RETRIES, LONGEST_PAUSE = 429, 5, 60  # seconds


class PatientAuth(httpx2.Auth):
    """Sends the token; asks again when a server that had too many requests has said when."""

    def __init__(self, token: str | None) -> None:
        self.token = token

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """One request and its repetitions: what was refused with 429 was not begun."""
        if self.token:
            request.headers["Authorization"] = f"Bearer {self.token}"
        response = yield request
        for _ in range(RETRIES):
            pause = response.headers.get("Retry-After", "")
            if response.status_code != TOO_MANY_REQUESTS or not pause.isdecimal() or int(pause) > LONGEST_PAUSE:
                return
            await asyncio.sleep(int(pause))
            response = yield request


@asynccontextmanager
async def open_toolbox(
    scope: Scope, allow: tuple[str, ...] | None, servers: Servers | None = None
) -> AsyncIterator[McpToolbox]:
    """Tools of one caller. A client is opened when it is first needed, closed at the end.

    Args:
        scope: what servers in this process may touch.
        allow: names of the caller's tools; None: all.
        servers: those that live elsewhere; None: as the settings say.
    """
    async with AsyncExitStack() as opened:
        yield McpToolbox(scope, allow, opened, scope.settings.servers if servers is None else servers)


class McpToolbox:
    """Tools of one caller while its clients are open."""

    def __init__(self, scope: Scope, allow: tuple[str, ...] | None, opened: AsyncExitStack, servers: Servers) -> None:
        self.scope = scope
        self.allow = allow
        self.servers = servers
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
        result = await self.result(server, name, arguments)
        if result.is_error:
            raise ToolError(error_text(result))
        return unwrap_result(result.structured_content)

    async def result(self, server: str, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """What the server answers. Raises InfrastructureError when it does not, ToolError for a call that it does not know."""
        client = await self._client(server)
        try:
            return await client.call_tool_mcp(name, arguments)
        except McpError as e:
            raise ToolError(e.message) if e.code in REFUSED else server_gone(server, e) from e
        except (RuntimeError, OSError) as e:
            raise server_gone(server, e) from e

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
        how = self.servers.get(server)
        if isinstance(how, McpProgram):
            return await self._stdio_client(server, how)
        new = (
            Client(how, auth=PatientAuth(settings.mcp_token), timeout=self._timeout_of(server))
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

        The process gets what every MCP client hands on (PATH, HOME and the like), where this machine's runs and
        engines lie, and what the program's own `env` says: no key of ours.
        """
        home = self.scope.settings.home
        env = {"FT_FILE_PATH": str(home.root), "FT_ENGINES_DIR": str(home.engines), **how.env}
        said = self._opened.enter_context(tempfile.TemporaryFile("w+", errors="replace"))  # noqa: SIM115 - it is closed there
        transport = StdioTransport(how.command, list(how.args), env, keep_alive=False, log_file=said)
        try:
            return await self._opened.enter_async_context(Client(transport, timeout=self._timeout_of(server)))
        except (RuntimeError, OSError, McpError) as e:
            right = f'right is e.g. {{"command": "tuneloop-mcp", "args": ["{server}"]}}'
            raise InfrastructureError(
                f"MCP server {server} ({how.command}) did not start: {last_stderr_line(said) or e}; {right}"
            ) from e


class McpTraining:
    """`TrainingJobs` by the server `training`."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def launch(self, experiment: int, kind: TrainingKind) -> Launched:
        """Start it; returns at once. What runs or is over stays as it is."""
        return call_server(Launched, self.scope, "training", "launch", experiment=experiment, kind=kind)

    def status(self, experiment: int, kind: TrainingKind, seconds_left: float | None = None) -> TrainingStatus:
        """How far it is; `seconds_left` until it has to be over and evaluated, None: no limit."""
        asked = {"experiment": experiment, "kind": kind, "seconds_left": seconds_left}
        return call_server(TrainingStatus, self.scope, "training", "status", **asked)

    def stop(self, experiment: int, kind: TrainingKind, *, save: bool = True) -> TrainingStatus:
        """Ask it to end after the step at hand; with `save` it leaves a checkpoint there."""
        asked = {"experiment": experiment, "kind": kind, "save": save}
        return call_server(TrainingStatus, self.scope, "training", "stop", **asked)


class McpEvaluation:
    """`EvaluationJobs` by the server `evaluation`."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def evaluate(self, experiment: int) -> Launched:
        """Start the next of its jobs; returns at once."""
        return call_server(Launched, self.scope, "evaluation", "evaluate", experiment=experiment)

    def result(self, experiment: int) -> EvaluationStatus:
        """How far it is, and the scores."""
        return call_server(EvaluationStatus, self.scope, "evaluation", "get_result", experiment=experiment)

    def stop(self, experiment: int) -> EvaluationStatus:
        """End it."""
        return call_server(EvaluationStatus, self.scope, "evaluation", "stop", experiment=experiment)


def call_server(answer: type[Answer], scope: Scope, server: str, tool: str, **arguments: Any) -> Answer:
    """One call of a node, typed. Raises what the tool raised, wherever the server lives."""
    return answer.model_validate(run_sync(_call_server(scope, server, tool, arguments)))


async def _call_server(scope: Scope, server: str, tool: str, arguments: dict[str, Any]) -> Any:
    elsewhere = node_servers(scope)
    result: CallToolResult | ToolResult
    if server in elsewhere:
        async with open_toolbox(scope, None, elsewhere) as tools:
            result = await tools.result(server, tool, arguments)
    else:  # nodes poll: a session for each look would cost ten times as much
        result = await _local(server, scope).call_tool(tool, arguments)
    if result.is_error:
        raise told_error(error_text(result), result.meta)
    return result.structured_content


def node_servers(scope: Scope) -> Servers:
    """Servers elsewhere that nodes use: those with a URL. A program is started for agents, not for each look at a job.

    Servers elsewhere do not know the further trainings of a recipe, which have seeds of their own.
    """
    if scope.run is not None and scope.run.training > 1:
        return {}
    return {name: how for name, how in scope.settings.servers.items() if isinstance(how, str)}


INVALID = re.compile(r"^(\S+)\n  (.+?)(?: \[type=.*)?$", re.MULTILINE)


def error_text(result: CallToolResult | ToolResult) -> str:
    """The sentence of a failed call; what pydantic says of wrong arguments in one line, without its links."""
    text = "\n".join(part.text for part in result.content if isinstance(part, TextContent))
    found = INVALID.findall(text) if "validation error" in text.partition("\n")[0] else []
    return "; ".join(f"{name}: {what[:1].lower()}{what[1:]}" for name, what in found) or text


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
