"""What a run stands on must be what it was when it began: looked at before anything is touched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import digest, digest_file, read_model, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import PlacedBenchmark, Setup
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items.folder import file_hashes, items_fingerprint
from tuneloop.tools.engines.blueprint import ENGINE_BLUEPRINTS
from tuneloop.tools.engines.find import find_pinned_engine
from tuneloop.tools.hub.store import manifest_files
from tuneloop.tools.runs.evidence import HASHES
from tuneloop.tools.runs.manifest import read_spec
from tuneloop.tools.runs.signature import check_no_links_out, check_signed

Stamps = dict[str, str]


def check_unchanged(run: RunFolder, settings: Settings) -> None:
    """Manifest, signature, folder, engines, model, data sets, benchmark. Raises InvalidRequestError in one line, nothing touched.

    Contents are hashed when sizes or times have changed since they were found right; else only those are looked at.
    """
    read_spec(run)
    check_no_links_out(run)
    setup = read_setup(run)
    check_signed(run)
    if not os.access(run.root, os.W_OK | os.X_OK):
        raise InvalidRequestError(
            f"{run.root}: cannot write there; make it writable, or copy the run to another FT_FILE_PATH and resume it there "
            "with --trust-folder"
        )
    if setup is None:
        proofs = ("scores.json", HASHES)  # a run without a benchmark has no scores
        if any((run.baseline / name).is_file() for name in proofs):
            raise InvalidRequestError(
                f"{run.setup} is gone, and run {run.id} stands on it: put it back, or start again with: "
                f"tuneloop run --repeat {run.id}"
            )
        return
    for name in ENGINE_BLUEPRINTS:
        if made := setup.versions.get(name):
            find_pinned_engine(name, settings, made.rpartition("(")[2].rstrip(")"))
    known = read_stamps(run)
    seen = {
        str(place): check_contents(run, what, place, wanted, known) for what, place, wanted in run_foundations(setup)
    }
    if seen != known:
        write_json(run.stamps, seen)


def read_setup(run: RunFolder) -> Setup | None:
    """What `prepare` settled; None before. Raises InvalidRequestError when the file is not ours."""
    if not run.setup.is_file():
        return None
    try:
        return read_model(run.setup, Setup)
    except (ValueError, ValidationError) as e:
        raise InvalidRequestError(f"{run.setup}: not what `prepare` wrote: {' '.join(str(e).split())[:300]}") from e


def run_foundations(setup: Setup) -> Iterator[tuple[str, Path, str]]:
    """What it is, where it lies, the hash it had."""
    yield f"model {setup.model_name}", setup.model_root, setup.model_fingerprint
    for name, root in setup.datasets.items():
        yield f"data set {name}", root, setup.dataset_fingerprints[name]
    for placed in setup.benchmarks:
        yield f"benchmark {placed.benchmark.name}", placed.root, benchmark_fingerprint(placed)


def benchmark_fingerprint(placed: PlacedBenchmark) -> str:
    """What the folder should hash to; "" when its manifest is of another benchmark.

    Raises InvalidRequestError when it is gone, or of an older version.
    """
    try:
        hashes = file_hashes(placed.root)
    except FileNotFoundError as e:
        raise InvalidRequestError(
            f"benchmark {placed.benchmark.name} ({placed.root}) is gone: put it back to go on"
        ) from e
    return combine_hashes(hashes) if items_fingerprint(placed.benchmark, hashes) == placed.fingerprint else ""


def check_contents(run: RunFolder, what: str, place: Path, wanted: str, known: Stamps) -> str:
    """The stamp of `place` after its contents were found right. Raises InvalidRequestError when they are not."""
    if not place.exists():
        raise InvalidRequestError(f"{what} ({place}) is gone: put it back to go on with run {run.id}")
    now = stat_stamp(place)
    if known.get(str(place)) != now and content_fingerprint(place) != wanted:
        raise InvalidRequestError(
            f"{what} ({place}) has changed since run {run.id} began: put it back, "
            f"or start again with: tuneloop run --repeat {run.id}"
        )
    return now


def stat_stamp(place: Path) -> str:
    """Names, sizes and times of the files: a cheap test for changes."""
    files = [place] if place.is_file() else manifest_files(place)
    return digest(*(f"{f} {s.st_size} {s.st_mtime_ns}" for f in files for s in (f.stat(),)))


def content_fingerprint(place: Path) -> str:
    """As `fingerprint`, but what lies there counts, not what a manifest says."""
    if place.is_file():
        return digest(f"{place.name}:{digest_file(place)}")
    return combine_hashes({str(p.relative_to(place)): digest_file(p) for p in manifest_files(place)})


def combine_hashes(hashes: dict[str, str]) -> str:
    """One hash over names and hashes."""
    return digest(*(f"{name}:{value}" for name, value in sorted(hashes.items())))


def read_stamps(run: RunFolder) -> Stamps:
    """Verified places with their stamps at that time; {} before the first check."""
    try:
        return read_model(run.stamps, Stamps)
    except (FileNotFoundError, ValueError):
        return {}
