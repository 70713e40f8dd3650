"""Write the hashes of every lock anew from the package index: edit `name==version` lines, then `.venv/bin/python locks/update.py`.

The hashes are those of all files of a release, so a lock holds for every platform and Python. uv is in `.venv`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = sorted((*ROOT.glob("locks/*.txt"), *ROOT.glob("engines/build.txt"), *ROOT.glob("engines/*/lock-*.txt")))
UV = ("pip", "compile", "-q", "--no-config", "--no-deps", "--no-header", "--no-annotate", "--generate-hashes", "-")
PIN = re.compile(r"^[A-Za-z0-9._-]+==[^\s\\]+", re.MULTILINE)


def main() -> int:
    """All locks, or those named on the command line."""
    for lock in [Path(name) for name in sys.argv[1:]] or LOCKS:
        text = lock.read_text(encoding="utf-8")
        header = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
        lock.write_text(header + hashed("\n".join(PIN.findall(text))), encoding="utf-8")
    return 0


def hashed(pins: str) -> str:
    """The pins, each with the SHA-256 of every file of its release."""
    return subprocess.run(
        (sys.executable, "-m", "uv", *UV), input=pins, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
