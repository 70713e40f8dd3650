"""Code, tests and pages use the field's words: none of `names-forbidden.txt` occurs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("names-forbidden.txt")
FOLDERS = (
    "agents",
    "benchmarks",
    "cli",
    "core",
    "docs",
    "engines",
    "examples",
    "graph",
    "mcp_servers",
    "prompts",
    "sandboxes",
    "tests",
    "tools",
)
KINDS = {".py", ".md", ".yaml", ".toml"}
RECORDED = "tests/hub/repos"  # files of other projects


def test_no_forbidden_name_occurs() -> None:
    names = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    assert len(names) >= 35
    # Also as a part of a name, between underscores.
    pattern = re.compile(rf"(?<![^\W_]|-)(?:{'|'.join(map(re.escape, names))})(?![^\W_]|-)")
    files = [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *(f for name in FOLDERS for f in (ROOT / name).rglob("*"))]
    found = [
        f"{file.relative_to(ROOT)}: {match[0]}"
        for file in files
        if file.suffix in KINDS and RECORDED not in str(file) and "__pycache__" not in file.parts
        for match in pattern.finditer(file.read_text(encoding="utf-8"))
    ]
    assert not found, found[:20]
