"""Measure what tuneloop costs; `make bench` writes `benchmarks/out/results.json` and prints it.

Every row is {"name", "value", "unit", "goal", "ok"}. Ratios are against the stock tool in the same call. Exit status 1
when something could not be measured, with `--check` also when a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))  # PYTHONSAFEPATH leaves a script's own folder out

import climb  # noqa: E402, F401
import cluster  # noqa: E402, F401
import command_line  # noqa: E402, F401
import contamination  # noqa: E402, F401
import forecast  # noqa: E402, F401
import gate  # noqa: E402, F401
import inspecting  # noqa: E402, F401
import jobs  # noqa: E402, F401
import parameters  # noqa: E402, F401
import reference  # noqa: E402, F401
import resuming  # noqa: E402, F401
import scores  # noqa: E402, F401
import servers  # noqa: E402, F401
import stored  # noqa: E402, F401
import whole_run  # noqa: E402, F401
from figures import FIGURES, Figure, SkippedError, chosen, row, table  # noqa: E402
from place import Place  # noqa: E402

import sandboxes  # noqa: E402, F401
from tuneloop.core.files import write_json  # noqa: E402

OUT = HERE / "out" / "results.json"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="few steps and items: for function, not for thresholds")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="groups, or parts of figures' names")
    parser.add_argument("--out", type=Path, default=OUT, help=f"results as JSON (default: {OUT})")
    parser.add_argument("--check", action="store_true", help="exit status 1 when a goal is missed")
    parser.add_argument("--list", action="store_true", help="print the figures as JSON and measure nothing")
    return parser.parse_args()


def measured(one: Figure, place: Place) -> dict[str, Any]:
    """The figure's row; what went wrong is printed and leaves it without a value."""
    place.say(one.name)
    try:
        return row(one, one.measure(place))
    except SkippedError as e:
        return row(one, None, str(e))
    except Exception:  # noqa: BLE001 - one figure's failure must not cost the others
        traceback.print_exc()
        return row(one, None)


def main() -> int:
    """All figures asked for; the exit status."""
    given = arguments()
    if given.list:
        print(
            json.dumps([row(f, None) | {"group": f.group, "default": f.by_default} for f in FIGURES.values()], indent=1)
        )
        return 0
    try:
        figures = chosen(tuple(given.only))
    except LookupError as e:
        print(e, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    began = time.monotonic()
    place = Place(given.small, given.out.with_name("details.json"))
    try:
        rows = [measured(one, place) for one in figures]
    finally:
        place.close()
    write_json(given.out, rows)
    print(table(rows))
    place.say(f"{given.out}, {time.monotonic() - began:.0f} s")
    asked = [r for r in rows if "skipped" not in r]
    failed = any(r["value"] is None for r in asked)
    return int(failed or (given.check and not all(r["ok"] for r in asked)))


if __name__ == "__main__":
    sys.exit(main())
