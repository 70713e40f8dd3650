"""Looks at the environment it runs in: `python check.py OUT.json MODULE...` imports each and writes versions and problems.

Importing also leaves compiled files behind, without which every job in a read-only engine would compile anew.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import platform
import sys
from pathlib import Path


def problem_of(module: str) -> str:
    """Import it; "" when that works."""
    try:
        importlib.import_module(module)
    except Exception as e:  # noqa: BLE001 - whatever a foreign package raises is the finding
        return f"import {module}: {type(e).__name__}: {e}"
    return ""


def torch_digest() -> str:
    """Hash of the hashes of torch's installed files; "" without torch."""
    try:
        record = importlib.metadata.distribution("torch").read_text("RECORD") or ""
    except importlib.metadata.PackageNotFoundError:
        return ""
    # Scripts beside the package hold the environment's path, compiled files come and go.
    lines = [line for line in record.splitlines() if line.startswith("torch/") and ".pyc" not in line]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def main(out: str, *modules: str) -> None:
    """Write what was found."""
    problems = [text for text in map(problem_of, modules) if text]
    installed = {d.metadata["Name"].lower().replace("_", "-"): d.version for d in importlib.metadata.distributions()}
    found = {
        "python": platform.python_version(),
        "base_prefix": sys.base_prefix,
        "packages": dict(sorted(installed.items())),
        "torch": torch_digest(),
        "problems": problems,
    }
    Path(out).write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
