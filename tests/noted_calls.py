"""Run `tuneloop` (or `tuneloop-mcp`) and note the calls that its MCP servers get: `noted_calls.py FILE tuneloop ARGUMENTS`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tuneloop.mcp_servers import main as servers
from tuneloop.mcp_servers.scope import Scope

THIS = Path(__file__)


def note_calls(file: Path) -> None:
    """From now on every server that is built writes a line `server_tool` for each call."""
    build = servers.build_named_server

    def build_noted(name: str, scope: Scope) -> Any:
        from fastmcp.server.middleware import Middleware  # after the command line: it is slow to import

        class Noted(Middleware):
            async def on_call_tool(self, context: Any, call_next: Any) -> Any:
                with file.open("a") as f:
                    f.write(f"{name}_{context.message.name}\n")
                return await call_next(context)

        server = build(name, scope)
        server.add_middleware(Noted())
        return server

    servers.build_named_server = build_noted


def noted_calls(file: Path) -> set[str]:
    """What was called."""
    return set(file.read_text().split())


if __name__ == "__main__":
    note_calls(Path(sys.argv[1]))
    sys.argv = sys.argv[2:]
    if sys.argv[0] == "tuneloop":
        from tuneloop.cli.main import main

        main()
    else:
        servers.main()
