"""Everything that may go, nothing touched.

Nothing of a run that is worked on or has a job that lives, nothing below `benchmarks/` (sealed splits, the ledger of
reads), nothing behind a link. Whoever removes a find looks again under its owner's lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.experiment import Journal
from tuneloop.core.files import read_bytes
from tuneloop.core.formatting import format_duration
from tuneloop.core.layout import ExperimentFolder, Home, RunFolder
from tuneloop.core.locks import is_locked
from tuneloop.tools.engines.blueprint import ENGINE_BLUEPRINTS, engine_identity
from tuneloop.tools.engines.build import sibling_path
from tuneloop.tools.engines.engine import read_manifest
from tuneloop.tools.engines.find import linked_homes, processes_using
from tuneloop.tools.housekeeping.disk import is_trash, remove_path
from tuneloop.tools.housekeeping.pruning import (
    BY_CLEAN,
    RECIPES,
    SCRATCH,
    grpo_parents,
    matching_entries,
    prunable_entries,
    prune_experiment,
)
from tuneloop.tools.housekeeping.removable import (
    CleanupRequest,
    FolderState,
    Removable,
    inspect_folder,
    is_stale,
    real_folders,
)
from tuneloop.tools.hub.store import MANIFEST
from tuneloop.tools.runs.journal import planned_from
from tuneloop.tools.runs.manifest import read_spec

# What may go of a run that nobody works on.

CACHES = ("*/hf", "*/cache")
REBUILT = "made again when needed"
ReadJournal = Callable[[RunFolder], Journal]


def run_removables(
    run: RunFolder, inside: FolderState, wanted: CleanupRequest, read_journal: ReadJournal
) -> Iterator[Removable]:
    """The whole run when it is old enough for what was asked, else what it does not need."""
    name, age = f"runs/{run.id}", time.time() - last_touched(run)
    over = run.report_json.is_file()
    if wanted.older is not None and age > wanted.older:
        why = f"{'finished' if over else 'paused'}, last worked on {format_duration(age)} ago"
        yield Removable("runs", name, (run.root,), why, (run.lock,), run)
        return
    yield Removable("leftovers", name, inside.trash, "begun and never finished", (run.lock,), run)
    for place in (run.root, *run.preparations, run.final):
        found = list_entries(place / "work", SCRATCH if over else CACHES)
        yield Removable(
            "caches", f"{name}/{place.relative_to(run.root)}".removesuffix("/."), found, REBUILT, (run.lock,), run
        )
    merged = run.final / "merged"
    if (run.best / MANIFEST).is_file() and merged.is_dir():
        yield Removable("scratch", f"{name}/final/merged", (merged,), "best/ is the same model", (run.lock,), run)
    yield from experiment_removables(run, read_journal, over=over)


def needed_weights(run: RunFolder, journal: Journal) -> frozenset[int]:
    """Numbers of the experiments that a run which is not over may still begin with."""
    spec = read_spec(run)
    again = RECIPES if spec.seeds > 1 else 0
    return frozenset(planned_from(run, journal, spec.window)) | grpo_parents(run, journal, again)


def experiment_removables(run: RunFolder, read_journal: ReadJournal, *, over: bool) -> Iterator[Removable]:
    """Scratch and losing models; of an experiment that is not closed, only caches."""
    try:
        journal = read_journal(run)
        needed = frozenset() if over else needed_weights(run, journal)
    except (InvalidRequestError, ValueError):  # what cannot be read stays
        return
    closed = {e.number for e in journal.experiments}
    winners = {journal.best.number if journal.best else 0, 0 if over else max(closed, default=0)}
    for place in real_folders(run.experiments):
        if not place.name.isdecimal():
            continue
        folder, name = run.experiment(int(place.name)), f"runs/{run.id}/experiments/{place.name}"
        if folder.number not in closed:
            yield Removable("caches", name, list_entries(folder.work, CACHES), REBUILT, (run.lock,), run)
        elif folder.number in winners | needed:
            yield from winner_removables(run, folder, name, raw=over)
        else:
            act = partial(prune_experiment, folder, weights=True, raw=True, rule=BY_CLEAN)
            paths = tuple(p for p in prunable_entries(folder, weights=True, raw=True) if not is_trash(p))
            yield Removable(
                "models",
                name,
                paths,
                "neither the best nor the last, and no experiment begins with it",
                (run.lock,),
                run,
                act,
            )


def winner_removables(run: RunFolder, folder: ExperimentFolder, name: str, *, raw: bool) -> Iterator[Removable]:
    """Its scratch; what the script wrote before the gate too, once the report is written."""
    act = partial(prune_experiment, folder, weights=False, raw=raw, rule="tuneloop clean")
    paths = tuple(p for p in prunable_entries(folder, weights=False, raw=raw) if not is_trash(p))
    yield Removable("scratch", name, paths, "the experiment is over", (run.lock,), run, act)


def list_entries(place: Path, patterns: tuple[str, ...]) -> tuple[Path, ...]:
    """Entries by pattern, without what a removal left."""
    return tuple(p for p in matching_entries(place, patterns) if not is_trash(p))


def last_touched(run: RunFolder) -> float:
    """When somebody last worked on it, in seconds since 1970."""
    signs = (run.spec, run.events, run.report_json, run.inbox, run.setup, run.checkpoint)
    return max((p.stat().st_mtime for p in signs if p.exists()), default=time.time())


# What may go of the shared folders: unfinished downloads and builds, cached results, engines that nobody needs.


def store_removables(home: Home) -> Iterator[Removable]:
    """Models and data sets begun and never finished, runs half removed; `benchmarks/`, which holds the seals, is not entered."""
    for store in (home.models, home.datasets, home.runs):
        organisations = [] if store == home.runs else [p for p in real_folders(store) if not (p / MANIFEST).is_file()]
        for place in (store, *organisations):
            yield from unfinished_entries(home, place)


def unfinished_entries(home: Home, place: Path) -> Iterator[Removable]:
    """`.x.part`, `.x.work`, and `x` without a manifest where `.x.lock` tells that it was made here, not by the user."""
    for path in real_folders(place):
        name = path.name.removeprefix(".").removesuffix(".part").removesuffix(".work")
        lock = path.with_name(f".{name}.lock")
        begun = is_trash(path) or (path.name.startswith(".") and path.name.endswith(".work"))
        half = not path.name.startswith(".") and lock.is_file() and not (path / MANIFEST).is_file()
        if (begun or half) and is_stale(path) and not is_locked(lock) and not inspect_folder(path).alive:
            yield Removable("leftovers", relative_to_home(home, path), (path,), "begun and never finished", (lock,))


def cache_removables(home: Home) -> Iterator[Removable]:
    """Results kept across runs; they are made again when needed."""
    for path in real_folders(home.root / "cache"):
        yield Removable("caches", relative_to_home(home, path), (path,), "results are computed again when needed")


def view_removables(home: Home, runs: Sequence[RunFolder]) -> Iterator[Removable]:
    """Data sets without rows that hold sealed items, which no run reads."""
    setups = [read_bytes(run.setup) for run in runs if run.setup.is_file()]
    for path in real_folders(home.views):
        lock = sibling_path(path, "lock")
        if not is_locked(lock) and not any(path.name.encode() in text for text in setups):
            why = "no run reads it; it is made again when needed"
            yield Removable("caches", relative_to_home(home, path), (path,), why, (lock,))


def evaluation_removables(home: Home, older: float | None) -> Iterator[Removable]:
    """Of `tuneloop eval` and `matrix`: whole ones, with results, that are as old as was asked for; else what was never finished."""
    for path in (*real_folders(home.evaluations), *real_folders(home.trainings)):
        run = RunFolder(path)
        inside, age = inspect_folder(path, ignore=run.lock), time.time() - last_used(run)
        if inside.alive or is_locked(run.lock):
            continue
        if older is not None and age > older:
            why = f"last used {format_duration(age)} ago, with its results"
            yield Removable("evaluations", relative_to_home(home, path), (path,), why, (run.lock,), run)
        else:
            yield Removable(
                "leftovers", relative_to_home(home, path), inside.trash, "begun and never finished", (run.lock,), run
            )


def last_used(run: RunFolder) -> float:
    """When it was last asked for, in seconds since 1970."""
    return max(p.lstat().st_mtime for p in (run.root, *run.root.iterdir()))


def proxy_removables(home: Home) -> Iterator[Removable]:
    """Sockets of runs that are over or gone; those of an open run tell what was under way when its proxy was killed."""
    for path in real_folders(home.proxies):
        run, lock = home.run(path.name), path / "lock"
        if not is_locked(lock) and (run.report_json.is_file() or not run.spec.is_file()) and is_stale(path):
            yield Removable(
                "leftovers", relative_to_home(home, path), (path,), "the run's model proxy has ended", (lock,)
            )


def engine_removables(home: Home, *, unused: bool) -> Iterator[Removable]:
    """Abandoned builds; with `unused`, whole engines that neither this release nor an unfinished run of any home names."""
    needed = current_engine_names() if unused else None
    runs = [RunFolder(path) for one in linked_homes(home) for path in real_folders(one.runs)]
    texts = [read_bytes(run.setup) for run in runs if run.setup.is_file() and not run.report_json.is_file()]
    for path in real_folders(home.engines):
        lock, jobs = sibling_path(path, "lock"), sibling_path(path, "jobs")
        if (
            path.name.startswith(".")
            or "-" not in path.name
            or is_locked(lock)
            or inspect_folder(jobs).alive
            or processes_using(path)
        ):
            continue
        act = partial(remove_engine_folder, path, jobs)
        if not (path / MANIFEST).is_file() and lock.is_file():
            paths = tuple(p for p in (path, jobs) if p.is_dir())
            yield Removable(
                "leftovers", relative_to_home(home, path), paths, "a build that was abandoned", (lock,), act=act
            )
        elif needed is not None and path.name not in needed and not is_named_in_setup(path, texts):
            why = "neither this release nor an open run uses it"
            yield Removable("engines", relative_to_home(home, path), (path,), why, (lock,), act=act)


def is_named_in_setup(folder: Path, setups: Sequence[bytes]) -> bool:
    """Whether one of the setups says that it was made with this engine."""
    engine = read_manifest(folder / MANIFEST)
    return engine is not None and any(engine.identity.encode() in text for text in setups)


def remove_engine_folder(folder: Path, jobs: Path) -> None:
    """Remove an engine, unless a process began to use it."""
    if not processes_using(folder):
        for path in (folder, jobs):
            remove_path(path)


def current_engine_names() -> set[str] | None:
    """Folder names of the engines that this release builds here; None: no interpreter for it, nothing may be judged."""
    try:
        return {f"{b.name}-{engine_identity(b)}" for b in ENGINE_BLUEPRINTS.values()}
    except InvalidRequestError:
        return None


def relative_to_home(home: Home, path: Path) -> str:
    """Relative to the home; engines may lie elsewhere."""
    return str(path.relative_to(home.root) if path.is_relative_to(home.root) else path)


LEAST_CACHE = 100_000  # an empty cache is no find


def find_removables(home: Home, wanted: CleanupRequest, read_journal: ReadJournal) -> list[Removable]:
    """What may go by what is wanted, in the order of the folders."""
    runs = [
        RunFolder(path) for path in real_folders(home.runs) if path.name[0] != "." and (path / "run.yaml").is_file()
    ]
    chosen = [run for run in runs if wanted.run is None or run.root == wanted.run.root]
    looks = {run.id: inspect_folder(run.root) for run in chosen}
    found = [
        find
        for run in chosen
        if not looks[run.id].alive
        for find in run_removables(run, looks[run.id], wanted, read_journal)
    ]
    if wanted.run is None:
        found += [
            *evaluation_removables(home, wanted.older),
            *store_removables(home),
            *proxy_removables(home),
            *engine_removables(home, unused=wanted.engines),
        ]
        if not any(inside.alive for inside in looks.values()):
            found += [*cache_removables(home), *view_removables(home, runs)]
    return [find for find in found if find.paths and (find.kind != "caches" or find.bytes > LEAST_CACHE)]
