"""Write what every environment is made of as CycloneDX 1.6, one file a lock: `make sbom`; the same bytes every time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from update import LOCKS, PIN, ROOT

TOOL = ("-W", "ignore", "-m", "cyclonedx_py", "requirements", "--output-reproducible", "--short-PURLs", "--sv", "1.6")


def main() -> int:
    """Into the folder named on the command line."""
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for lock in LOCKS:
        name = "-".join(lock.relative_to(ROOT).with_suffix("").parts)
        write(lock, out / f"{name}.cdx.json")
    return 0


def write(lock: Path, file: Path) -> None:
    """One lock, and torch where it belongs to it; the tool validates what it writes."""
    torch = lock.with_name("torch.txt")
    text = lock.read_text(encoding="utf-8")
    if torch.is_file():
        text += "\n".join(PIN.findall(torch.read_text(encoding="utf-8"))) + "\n"
    argv = (sys.executable, *TOOL, "--pyproject", str(ROOT / "pyproject.toml"), "-o", str(file), "-")
    subprocess.run(argv, input=text, text=True, check=True)


if __name__ == "__main__":
    sys.exit(main())
