"""A run that somebody sends may hold any text: whoever looks at it gets letters, and no sequence that moves his terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tuneloop.cli.main import cli

from .damage import make_home

EVIL = "\x1b]52;c;QUJD\x07\x9b31m\x1b[2J"
# Words of a fixed list; another one makes the file damaged, which is shown elsewhere.
FIXED = {
    "kind",
    "at",
    "outcome",
    "culprit",
    "blame",
    "method",
    "aspect",
    "do",
    "who",
    "direction",
    "metric",
    "leads",
    "node",
}
FIXED |= {"created", "sandbox", "executor", "approve", "on_stop"}
COMMANDS = (
    ("list", "runs"), ("list", "runs", "--json"), ("status", "open", "--all"), ("status", "done", "--json"),
    ("report", "done"), ("report", "done", "--json"), ("watch", "open"), ("watch", "done", "--json"),
    ("replay", "open", "--show"), ("replay", "done"), ("stop", "open"), ("chat", "open", "why 1"), ("resume", "open"),
)  # fmt: skip


def spoiled(value: Any, name: str = "") -> Any:
    """Every text at any depth, with escape sequences behind it."""
    if isinstance(value, dict):
        return {key: spoiled(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [spoiled(inner) for inner in value]
    return value + EVIL if isinstance(value, str) and name not in FIXED else value


def spoil(file: Path) -> None:
    """Rewrite one file of a run."""
    if file.suffix in (".json", ".jsonl"):
        text = file.read_text()
        rows = text.splitlines() if file.suffix == ".jsonl" else [text]
        file.write_text("".join(json.dumps(spoiled(json.loads(row)), ensure_ascii=False) + "\n" for row in rows))
    elif file.suffix in (".md", ".txt", ".py"):
        file.write_text(file.read_text() + EVIL)
    elif file.suffix == ".yaml":
        file.write_text(yaml.safe_dump(spoiled(yaml.safe_load(file.read_text()))))


def test_no_control_character_reaches_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    make_home(home)
    for file in (home / "runs").rglob("*"):
        if file.is_file() and not file.is_symlink() and "lock" not in file.name:
            spoil(file)
    monkeypatch.setenv("FT_FILE_PATH", str(home))
    monkeypatch.chdir(tmp_path)
    shown = ""
    for words in COMMANDS:
        found = CliRunner().invoke(cli, words, input="")
        assert found.exception is None or isinstance(found.exception, SystemExit), words
        assert not {c for c in found.output if c != "\n" and (ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0)}, words
        shown += found.output
    assert shown.count("QUJD") > 20
