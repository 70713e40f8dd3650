"""Programs that speak MCP: where each keeps its servers, and in which form."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tuneloop.core.errors import SetupError

Scope = Literal["user", "project"]


@dataclass(frozen=True)
class Program:
    """`user` and `project`: its files, below the home and the working folder; None: it has no such file."""

    name: str
    title: str
    user: Path
    project: Path | None
    key: str = "mcpServers"
    typed: bool = False
    then: str = ""

    def file(self, scope: Scope) -> Path:
        """Where its servers are. Raises SetupError when it has no servers of a project."""
        if scope == "user":
            return self.user
        if self.project is None:
            raise SetupError(f"--project: {self.title} has no servers of one project; right is --user")
        return Path.cwd() / self.project

    def entry(self, command: str, words: tuple[str, ...], env: dict[str, str]) -> dict[str, Any]:
        """One server as the program wants it."""
        kind = {"type": "stdio"} if self.typed else {}
        return {**kind, "command": command, "args": list(words), **({"env": env} if env else {})}


def programs() -> dict[str, Program]:
    """By name, for this user."""
    home = Path.home()
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    known = (
        Program(
            "claude-code",
            "Claude Code",
            home / ".claude.json",
            Path(".mcp.json"),
            typed=True,
            then="start claude in this folder; /mcp shows the servers",
        ),
        Program(
            "claude-desktop",
            "Claude Desktop",
            config / "Claude" / "claude_desktop_config.json",
            None,
            then="quit Claude Desktop and start it again",
        ),
        Program(
            "cursor",
            "Cursor",
            home / ".cursor" / "mcp.json",
            Path(".cursor/mcp.json"),
            then="switch the servers on under Cursor Settings, MCP",
        ),
        Program(
            "vscode",
            "VS Code",
            config / "Code" / "User" / "mcp.json",
            Path(".vscode/mcp.json"),
            key="servers",
            typed=True,
            then="start the servers from the file, or with MCP: List Servers",
        ),
    )
    return {program.name: program for program in known}
