"""`tuneloop mcp`: servers land in each program's own file, everything else in it stays, and twice is once."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tuneloop.cli.main import cli
from tuneloop.cli.mcp_clients import mcp_clients
from tuneloop.mcp_servers.main import SERVERS

PROJECT = {"claude-code": ".mcp.json", "cursor": ".cursor/mcp.json", "vscode": ".vscode/mcp.json"}
USER = {
    "claude-code": ".claude.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
}
NAMES = [f"tuneloop-{name}" for name in SERVERS]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder, and a home of its own."""
    project, home = tmp_path / "my project", tmp_path / "me"
    project.mkdir()
    home.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for name in ("FT_FILE_PATH", "FT_ENGINES_DIR"):
        monkeypatch.delenv(name)
    return project


def call(*args: str, said: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["mcp", *args], input=said)


def servers(file: Path, key: str) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads(file.read_text())[key]
    return found


@pytest.mark.parametrize("name", PROJECT)
def test_a_project_gets_all_servers(folder: Path, name: str) -> None:
    done = call("install", name, "--yes")
    assert done.exit_code == 0, done.output
    found = servers(folder / PROJECT[name], mcp_clients()[name].key)
    assert list(found) == NAMES
    runs = found["tuneloop-runs"]
    assert Path(str(runs["command"])).is_absolute() and os.access(str(runs["command"]), os.X_OK)
    assert runs["args"] == ["runs", "--folder", str(folder)]
    assert runs.get("type", "stdio") == "stdio"
    again = call("install", name, "--yes")
    assert "has them already" in again.output


@pytest.mark.parametrize("name", USER)
def test_user_scope_writes_the_users_file(tmp_path: Path, name: str) -> None:
    assert call("install", name, "--user", "--yes").exit_code == 0
    assert list(servers(tmp_path / "me" / USER[name], mcp_clients()[name].key)) == NAMES


def test_everything_else_stays(folder: Path) -> None:
    file = folder / ".mcp.json"
    before = {"other": [1.5, None, "ü"], "mcpServers": {"mine": {"command": "x", "env": {"KEY": "secret"}}}, "last": {}}
    file.write_text(json.dumps(before, indent="\t", ensure_ascii=False))
    file.chmod(0o640)
    assert call("install", "claude-code", "--server", "runs", "--yes").exit_code == 0
    after = json.loads(file.read_text())
    assert list(after) == list(before)
    assert after.pop("mcpServers") == {**before.pop("mcpServers"), "tuneloop-runs": after_entry(folder)}  # type: ignore[dict-item]
    assert after == before
    assert '\n\t"other"' in file.read_text() and "ü" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert sorted(p.name for p in folder.iterdir()) == [".mcp.json"]


def after_entry(folder: Path) -> dict[str, object]:
    command = str(Path(sys.executable).parent / "tuneloop-mcp")
    return {"type": "stdio", "command": command, "args": ["runs", "--folder", str(folder)]}


def test_nothing_is_written_without_a_yes(folder: Path) -> None:
    shown = call("install", "cursor", said="n\n")
    assert '+    "tuneloop-runs": {' in shown.output
    assert f"Write {folder / '.cursor/mcp.json'}?" in shown.output
    assert not (folder / ".cursor").exists()
    asked = call("install", "cursor", said="y\n")
    assert asked.exit_code == 0
    assert (folder / ".cursor/mcp.json").is_file()


def test_print_writes_nothing(folder: Path) -> None:
    printed = call("install", "vscode", "--print", "--server", "params")
    assert list(json.loads(printed.output)["servers"]) == ["tuneloop-params"]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"mcpServers": {', "not plain JSON"),
        ('{\n// a comment\n"mcpServers": {}}', "not plain JSON"),
        ('{"a": 1, "a": 2}', "'a' is there twice"),
        ("[" * 100_000, "not plain JSON"),
        ("[]", "holds no JSON object"),
        ('{"mcpServers": []}', "holds no JSON object"),
        ("\udcff", "cannot be read"),
    ],
)
def test_a_broken_file_is_left_alone(folder: Path, text: str, why: str) -> None:
    file = folder / ".mcp.json"
    file.write_bytes(text.encode(errors="surrogateescape"))
    refused = call("install", "claude-code", "--yes")
    assert refused.exit_code == 2
    assert why in refused.stderr and str(file) in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert file.read_bytes() == text.encode(errors="surrogateescape")


def test_escapes_stay_escapes(folder: Path) -> None:
    file = folder / ".mcp.json"
    file.write_text('{"odd": "\\ud800 \\u00fc"}')
    assert call("install", "claude-code", "--yes").exit_code == 0
    assert '"\\ud800 \\u00fc"' in file.read_text()


def test_a_link_is_followed(folder: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    (folder / ".mcp.json").symlink_to(real)
    assert call("install", "claude-code", "--yes").exit_code == 0
    assert (folder / ".mcp.json").is_symlink()
    assert list(servers(real, "mcpServers")) == NAMES


def test_the_home_is_told_and_no_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_FILE_PATH", "files")
    monkeypatch.setenv("FT_ENGINES_DIR", "/opt/engines")
    monkeypatch.setenv("OPENAI_API_KEY", "canary-key")
    assert call("install", "claude-code", "--yes").exit_code == 0
    text = (folder / ".mcp.json").read_text()
    assert "canary-key" not in text
    assert servers(folder / ".mcp.json", "mcpServers")["tuneloop-data"]["env"] == {
        "FT_FILE_PATH": str(folder / "files"),
        "FT_ENGINES_DIR": "/opt/engines",
    }


def test_claude_desktop_has_no_projects() -> None:
    refused = call("install", "claude-desktop", "--project", "--yes")
    assert refused.exit_code == 2
    assert "right is --user" in refused.stderr


def test_the_list_says_who_has_what() -> None:
    call("install", "cursor", "--server", "runs", "--yes")
    rows = {row["name"]: row for row in json.loads(call("list", "--json").output)}
    assert list(rows) == list(SERVERS)
    assert rows["runs"]["installed"] == ["cursor (project)"]
    assert rows["params"]["installed"] == []
    assert rows["runs"]["offers"].startswith("start whole fine-tuning runs")
    assert "installed: cursor (project)" in call("list").output


def test_what_is_written_starts(folder: Path) -> None:
    """As a client does it: from elsewhere, with an environment of next to nothing."""
    call("install", "claude-code", "--server", "runs", "--yes")
    entry = servers(folder / ".mcp.json", "mcpServers")["tuneloop-runs"]
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    env = {"PATH": "/usr/bin:/bin", **{k: v for k, v in os.environ.items() if k == "PYTHONPATH"}}
    p = subprocess.run(
        [str(entry["command"]), *entry["args"]],  # type: ignore[misc]
        input=line + "\n",
        env=env,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert json.loads(p.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "runs", p.stderr
