"""Ask a source of advisories about every package of every lock: `make audit`.

Exit status: 0 every package was asked about and none is known to be vulnerable, 1 some are, 3 not all could be asked
about. pip-audit alone ends with 0 when it skipped everything and with 1 when it crashed; a skipped audit is no passed one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from update import LOCKS, PIN, ROOT

VULNERABLE, NOT_ASKED = 1, 3
OSV = "https://api.osv.dev/v1/query"
TOOL = ("-m", "pip_audit", "-s", "osv", "--disable-pip", "--no-deps", "--progress-spinner", "off", "-f", "json")


def main() -> int:
    """Say for each lock what was found, and how it ends."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("locks", nargs="*", type=Path, help="default: all")
    parser.add_argument("--osv-url", default=OSV, help="another source that speaks OSV's protocol")
    given = parser.parse_args()
    ends = [audit(lock, given.osv_url) for lock in given.locks or (*LOCKS, *sorted(ROOT.glob("engines/*/torch.txt")))]
    if NOT_ASKED in ends:
        print("not audited: some packages could not be asked about; this is no pass", file=sys.stderr)
    return VULNERABLE if VULNERABLE in ends else max(ends)


def audit(lock: Path, url: str) -> int:
    """One lock."""
    pins = PIN.findall(lock.read_text(encoding="utf-8"))
    found, why = ask(pins, url)
    bad = [(d["name"], d["version"], v) for d in found for v in d.get("vulns", ())]
    for name, version, v in bad:
        print(f"{lock}: {name} {version}: {v['id']}, fixed in {', '.join(v['fix_versions']) or 'no release'}")
    asked = sum("skip_reason" not in d for d in found)
    print(f"{lock}: {asked} of {len(pins)} packages asked about, {len(bad)} advisories{why}")
    return VULNERABLE if bad else 0 if asked == len(pins) else NOT_ASKED


def ask(pins: list[str], url: str) -> tuple[list[dict[str, Any]], str]:
    """What pip-audit says of each pin, nothing when it broke off; and why."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(pins))
        file.flush()
        p = subprocess.run(
            (sys.executable, *TOOL, "--osv-url", url, "-r", file.name), capture_output=True, text=True, check=False
        )
    try:
        return list(json.loads(p.stdout)["dependencies"]), ""
    except ValueError:
        return [], f" ({(p.stderr.strip().splitlines() or ['no answer'])[-1][:300]})"


if __name__ == "__main__":
    sys.exit(main())
