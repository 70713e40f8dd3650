"""The long form of the crash tests, for `make soak`: 150 random kills and every boundary of a run of two experiments."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run the tests of this folder in their long form; CRASH_SEED=N repeats the random ones."""
    argv = [sys.executable, "-m", "pytest", str(Path(__file__).parent), "-x", "-s", "-o", "timeout=14400"]
    return subprocess.run(argv, env={**os.environ, "CRASH_FORM": "long"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
