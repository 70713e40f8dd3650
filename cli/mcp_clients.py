"""Programs that speak MCP: where each keeps its servers, and in which form."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import write_atomic

Scope = Literal["user", "project"]


@dataclass(frozen=True)
class McpClient:
    """`user` and `project`: its files, below the home and the working folder; None: it has no such file."""

    name: str
    title: str
    user: Path
    project: Path | None
    key: str = "mcpServers"
    typed: bool = False
    then: str = ""

    def file(self, scope: Scope) -> Path:
        """Where its servers are. Raises InvalidRequestError when it has no servers of a project."""
        if scope == "user":
            return self.user
        if self.project is None:
            raise InvalidRequestError(f"--project: {self.title} has no servers of one project; right is --user")
        return Path.cwd() / self.project

    def entry(self, command: str, words: tuple[str, ...], env: dict[str, str]) -> dict[str, Any]:
        """One server as the program wants it."""
        kind = {"type": "stdio"} if self.typed else {}
        return {**kind, "command": command, "args": list(words), **({"env": env} if env else {})}


def mcp_clients() -> dict[str, McpClient]:
    """By name, for this user."""
    home = Path.home()
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    known = (
        McpClient(
            "claude-code",
            "Claude Code",
            home / ".claude.json",
            Path(".mcp.json"),
            typed=True,
            then="start claude in this folder; /mcp shows the servers",
        ),
        McpClient(
            "claude-desktop",
            "Claude Desktop",
            config / "Claude" / "claude_desktop_config.json",
            None,
            then="quit Claude Desktop and start it again",
        ),
        McpClient(
            "cursor",
            "Cursor",
            home / ".cursor" / "mcp.json",
            Path(".cursor/mcp.json"),
            then="switch the servers on under Cursor Settings, MCP",
        ),
        McpClient(
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


# Add servers to a program's JSON file and keep everything else that is in it.

INDENT = re.compile(r"^\{\s*\n([ \t]+)")


def read_file(path: Path) -> str:
    """The file's text, "" when there is none. Raises InvalidRequestError for what cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as e:
        raise InvalidRequestError(f"{path}: cannot be read: {e}") from e


def parse_object(text: str, path: Path) -> dict[str, Any]:
    """The object in a file. Raises InvalidRequestError in one line for JSON that cannot be written back as it was."""
    try:
        found = json.loads(text, object_pairs_hook=unique_keys) if text.strip() else {}
    except (ValueError, RecursionError) as e:
        raise InvalidRequestError(
            f"{path}: not plain JSON: {e}; nothing was changed: correct it, or add what --print shows by hand"
        ) from e
    if not isinstance(found, dict):
        raise InvalidRequestError(f"{path}: holds no JSON object; nothing was changed")
    return found


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are there once. Raises ValueError: one of two would be lost."""
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice!r} is there twice")
    return dict(pairs)


def merge_servers(text: str, path: Path, key: str, servers: Mapping[str, Any]) -> str:
    """The file's new text: `servers` below `key`, all else as it was; the same text when nothing is new."""
    whole = parse_object(text, path)
    there = whole.get(key, {})
    if not isinstance(there, dict):
        raise InvalidRequestError(f"{path}: {key} holds no JSON object; nothing was changed")
    if all(there.get(name) == entry for name, entry in servers.items()):
        return text
    indent = INDENT.match(text.lstrip("\ufeff"))
    plain = bool(text) and text.isascii()  # escapes stay escapes
    made = json.dumps({**whole, key: {**there, **servers}}, indent=indent[1] if indent else 2, ensure_ascii=plain)
    return made + ("" if text and not text.endswith("\n") else "\n")


def unified_diff(path: Path, old: str, new: str) -> str:
    """What would change, as a unified diff."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), str(path), str(path), n=2, lineterm="")
    return "\n".join(lines)


def write_file(path: Path, old: str, new: str) -> None:
    """Put the new text in place, whole or not at all, with the file's own permissions; links are followed.

    Raises InvalidRequestError when somebody has changed the file since it was read.
    """
    path = path.resolve()
    try:
        if read_file(path) != old:
            raise InvalidRequestError(f"{path}: was changed in the meantime; nothing was written: try again")
        mode = path.stat().st_mode & 0o777 if old else 0o600
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, new, mode=mode)
    except OSError as e:
        raise InvalidRequestError(f"{path}: cannot be written: {os.strerror(e.errno or 0)}") from e
