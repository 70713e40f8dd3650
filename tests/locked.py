"""Packages that some tests alone need: from a lock of their own into a folder of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def install_lock(name: str, folder: Path) -> Path:
    """Install `locks/<name>.txt` into a folder, for this Python; the folder."""
    install = (sys.executable, "-I", str(ROOT / "tools/engines/run_uv.py"), "pip", "install", "-q")
    lock = ("--require-hashes", "--no-deps", "-r", str(ROOT / "locks" / f"{name}.txt"))
    subprocess.run([*install, "--python", sys.executable, "--target", str(folder), *lock], check=True)
    return folder
