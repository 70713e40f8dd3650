"""Can every pin of every lock be installed on every Python and processor that is promised? Asks the package index.

Exit status: 0 all can, 1 some cannot, 3 the index did not answer: that is no pass. A pin is fit where its release has a
wheel for that Python and processor; or, if it has no wheel at all, a source release, which the locked builder builds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version
from update import LOCKS, PIN, ROOT

PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))
PROCESSORS = ("x86_64", "aarch64")
GLIBC = 36  # Debian 12's; the oldest that is promised
INDEX = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple")
SIMPLE = {"Accept": "application/vnd.pypi.simple.v1+json"}
UNFIT, NOT_ASKED = 1, 3
AT_ONCE = 16
SOURCE: frozenset[Tag] = frozenset()
SECONDS = 60
WAITS = (1, 4)  # seconds before the second and the third try: a name server may be busy


def main() -> int:
    """Say for each lock which pins fit where."""
    locks = [Path(name) for name in sys.argv[1:]] or [*LOCKS, *sorted(ROOT.glob("engines/*/torch.txt"))]
    pins = {lock: [pin.split("==") for pin in PIN.findall(lock.read_text(encoding="utf-8"))] for lock in locks}
    names = sorted({name for given in pins.values() for name, _ in given})
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            files = dict(zip(names, pool.map(files_of, names), strict=True))
        except (OSError, ValueError) as e:
            print(f"{INDEX} did not answer, so nothing was decided: {e}", file=sys.stderr)
            return NOT_ASKED
    bad = 0
    for lock, given in pins.items():
        unfit = [why for name, version in given for why in missing(name, version, files[name])]
        print(*(f"{lock}: {why}" for why in unfit), f"{lock}: {len(given)} pins, {len(unfit)} gaps", sep="\n")
        bad += len(unfit)
    return UNFIT if bad else 0


def files_of(name: str) -> list[dict[str, Any]]:
    """All files of a package, those that were withdrawn aside. Raises OSError, ValueError."""
    request = Request(f"{INDEX.rstrip('/')}/{canonicalize_name(name)}/", headers=SIMPLE)  # noqa: S310 - as pip is set up
    for wait in (*WAITS, None):
        try:
            with urlopen(request, timeout=SECONDS) as reply:  # noqa: S310
                found: list[dict[str, Any]] = json.load(reply)["files"]
            break
        except OSError:
            if wait is None:
                raise
            time.sleep(wait)
    return [one for one in found if not one.get("yanked")]


def missing(name: str, version: str, files: list[dict[str, Any]]) -> Iterator[str]:
    """Where a release cannot be installed."""
    release = [
        (kind, SpecifierSet(file.get("requires-python") or ""))
        for file in files
        for kind in fits(file["filename"], version)
    ]
    wheels = any(kind is not SOURCE for kind, _ in release)
    for python in PYTHONS:
        taken = [kind for kind, pythons in release if f"{python[0]}.{python[1]}" in pythons]
        for processor in PROCESSORS:
            if not any(kind & wanted(python, processor) if wheels else kind is SOURCE for kind in taken):
                yield f"{name} {version} has no {'wheel' if wheels else 'source'} for Python {python[0]}.{python[1]} on {processor}"


def fits(file: str, version: str) -> Iterator[frozenset[Tag]]:
    """The tags of a file of this release, SOURCE for a source release; nothing for other files."""
    try:
        if file.endswith(".whl"):
            _, found, _, tags = parse_wheel_filename(file)
        else:
            (_, found), tags = parse_sdist_filename(file), SOURCE
    except ValueError:
        return
    if found == Version(version):
        yield tags


@lru_cache
def wanted(python: tuple[int, int], processor: str) -> frozenset[Tag]:
    """What pip takes on this Python and processor."""
    platforms = [f"manylinux_2_{minor}_{processor}" for minor in range(5, GLIBC + 1)]
    platforms += [f"{old}_{processor}" for old in ("manylinux1", "manylinux2010", "manylinux2014", "linux")]
    own = cpython_tags(python, platforms=platforms)
    return frozenset((*own, *compatible_tags(python, f"cp{python[0]}{python[1]}", platforms)))


if __name__ == "__main__":
    sys.exit(main())
