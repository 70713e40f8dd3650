"""What may go of the shared folders: unfinished downloads and builds, cached results, engines that nobody needs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from tuneloop.core.errors import SetupError
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.locks import is_locked
from tuneloop.core.wording import duration
from tuneloop.tools.cleaning.find import Find
from tuneloop.tools.cleaning.look import folders, look, stale
from tuneloop.tools.disk import is_trash, remove
from tuneloop.tools.engines.blueprint import BLUEPRINTS, engine_identity
from tuneloop.tools.engines.build import beside
from tuneloop.tools.engines.engine import read_manifest
from tuneloop.tools.engines.find import used_by
from tuneloop.tools.store import MANIFEST


def of_stores(home: Home) -> Iterator[Find]:
    """Models and data sets begun and never finished, runs half removed; `benchmarks/`, which holds the seals, is not entered."""
    for store in (home.models, home.datasets, home.runs):
        organisations = [] if store == home.runs else [p for p in folders(store) if not (p / MANIFEST).is_file()]
        for place in (store, *organisations):
            yield from unfinished(home, place)


def unfinished(home: Home, place: Path) -> Iterator[Find]:
    """`.x.part`, `.x.work`, and `x` without a manifest where `.x.lock` tells that it was made here, not by the user."""
    for path in folders(place):
        name = path.name.removeprefix(".").removesuffix(".part").removesuffix(".work")
        lock = path.with_name(f".{name}.lock")
        begun = is_trash(path) or (path.name.startswith(".") and path.name.endswith(".work"))
        half = not path.name.startswith(".") and lock.is_file() and not (path / MANIFEST).is_file()
        if (begun or half) and stale(path) and not is_locked(lock) and not look(path).alive:
            yield Find("leftovers", shown(home, path), (path,), "begun and never finished", (lock,))


def of_cache(home: Home) -> Iterator[Find]:
    """Results kept across runs; they are made again when needed."""
    for path in folders(home.root / "cache"):
        yield Find("caches", shown(home, path), (path,), "results are computed again when needed")


def of_evaluations(home: Home, older: float | None) -> Iterator[Find]:
    """Of `tuneloop eval`: whole ones, results and all, that are as old as was asked for; else what was begun and never finished."""
    for path in folders(home.evaluations):
        run = RunFolder(path)
        inside, age = look(path, ignore=run.lock), time.time() - last_measured(run)
        if inside.alive or is_locked(run.lock):
            continue
        if older is not None and age > older:
            why = f"measured {duration(age)} ago, with its results"
            yield Find("evaluations", shown(home, path), (path,), why, (run.lock,), run)
        else:
            yield Find("leftovers", shown(home, path), inside.trash, "begun and never finished", (run.lock,), run)


def last_measured(run: RunFolder) -> float:
    """When it was last asked for, in seconds since 1970."""
    return max(p.lstat().st_mtime for p in (run.root, *run.root.iterdir()))


def of_proxies(home: Home) -> Iterator[Find]:
    """Sockets of runs that are over or gone; those of an open run tell what was under way when its proxy was killed."""
    for path in folders(home.proxies):
        run, lock = home.run(path.name), path / "lock"
        if not is_locked(lock) and (run.report_json.is_file() or not run.spec.is_file()) and stale(path):
            yield Find("leftovers", shown(home, path), (path,), "the run's model proxy has ended", (lock,))


def of_engines(home: Home, runs: Sequence[RunFolder], *, unused: bool) -> Iterator[Find]:
    """Abandoned builds; with `unused`, whole engines that neither this release nor an unfinished run names."""
    needed = current() if unused else None
    texts = [run.setup.read_text() for run in runs if run.setup.is_file() and not run.report_json.is_file()]
    for path in folders(home.engines):
        lock, jobs = beside(path, "lock"), beside(path, "jobs")
        if path.name.startswith(".") or "-" not in path.name or is_locked(lock) or look(jobs).alive or used_by(path):
            continue
        act = partial(drop, path, jobs)
        if not (path / MANIFEST).is_file() and lock.is_file():
            paths = tuple(p for p in (path, jobs) if p.is_dir())
            yield Find("leftovers", shown(home, path), paths, "a build that was abandoned", (lock,), act=act)
        elif needed is not None and path.name not in needed and not named(path, texts):
            why = "neither this release nor an open run uses it"
            yield Find("engines", shown(home, path), (path,), why, (lock,), act=act)


def named(folder: Path, setups: Sequence[str]) -> bool:
    """Whether one of the setups says that it was made with this engine."""
    engine = read_manifest(folder / MANIFEST)
    return engine is not None and any(engine.identity in text for text in setups)


def drop(folder: Path, jobs: Path) -> None:
    """Remove an engine, unless a process began to use it."""
    if not used_by(folder):
        for path in (folder, jobs):
            remove(path)


def current() -> set[str] | None:
    """Folder names of the engines that this release builds here; None: no interpreter for it, nothing may be judged."""
    try:
        return {f"{b.name}-{engine_identity(b)}" for b in BLUEPRINTS.values()}
    except SetupError:
        return None


def shown(home: Home, path: Path) -> str:
    """Relative to the home."""
    return str(path.relative_to(home.root))
