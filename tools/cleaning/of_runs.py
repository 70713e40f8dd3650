"""What may go of a run that nobody works on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tuneloop.core.experiment import Journal
from tuneloop.core.layout import ExperimentFolder, RunFolder
from tuneloop.core.wording import duration
from tuneloop.tools.cleaning.find import Find, Wanted
from tuneloop.tools.cleaning.look import Inside, folders
from tuneloop.tools.disk import is_trash
from tuneloop.tools.pruning import SCRATCH, doomed, matches, prune_experiment
from tuneloop.tools.store import MANIFEST

CACHES = ("*/hf", "*/cache")
REBUILT = "made again when needed"
ReadJournal = Callable[[RunFolder], Journal]


def of_run(run: RunFolder, inside: Inside, wanted: Wanted, read_journal: ReadJournal) -> Iterator[Find]:
    """The whole run when it is old enough for what was asked, else what it does not need."""
    name, age = f"runs/{run.id}", time.time() - last_touched(run)
    over = run.report_json.is_file()
    if wanted.older is not None and age > wanted.older:
        why = f"{'finished' if over else 'paused'}, last worked on {duration(age)} ago"
        yield Find("runs", name, (run.root,), why, (run.lock,), run)
        return
    yield Find("leftovers", name, inside.trash, "begun and never finished", (run.lock,), run)
    for place in (run.root, run.baseline, run.baseline / "probe", run.final):
        found = listed(place / "work", SCRATCH if over else CACHES)
        yield Find(
            "caches", f"{name}/{place.relative_to(run.root)}".removesuffix("/."), found, REBUILT, (run.lock,), run
        )
    merged = run.final / "merged"
    if (run.best / MANIFEST).is_file() and merged.is_dir():
        yield Find("scratch", f"{name}/final/merged", (merged,), "best/ is the same model", (run.lock,), run)
    yield from of_experiments(run, read_journal, over=over)


def of_experiments(run: RunFolder, read_journal: ReadJournal, *, over: bool) -> Iterator[Find]:
    """Scratch and losing models; of an experiment that is not closed, only caches."""
    try:
        journal = read_journal(run)
    except ValueError:  # what cannot be read stays
        return
    closed = {e.number for e in journal.experiments}
    winners = {journal.best.number if journal.best else 0, 0 if over else max(closed, default=0)}
    for place in folders(run.experiments):
        if not place.name.isdecimal():
            continue
        folder, name = run.experiment(int(place.name)), f"runs/{run.id}/experiments/{place.name}"
        if folder.number not in closed:
            yield Find("caches", name, listed(folder.work, CACHES), REBUILT, (run.lock,), run)
        elif folder.number in winners:
            yield from of_winner(run, folder, name, raw=over)
        else:
            act = partial(prune_experiment, folder, weights=True, raw=True, rule="tuneloop clean")
            paths = tuple(p for p in doomed(folder, weights=True, raw=True) if not is_trash(p))
            yield Find("models", name, paths, "neither the best nor the last", (run.lock,), run, act)


def of_winner(run: RunFolder, folder: ExperimentFolder, name: str, *, raw: bool) -> Iterator[Find]:
    """Its scratch; what the script wrote before the gate too, once the report is written."""
    act = partial(prune_experiment, folder, weights=False, raw=raw, rule="tuneloop clean")
    paths = tuple(p for p in doomed(folder, weights=False, raw=raw) if not is_trash(p))
    yield Find("scratch", name, paths, "the experiment is over", (run.lock,), run, act)


def listed(place: Path, patterns: tuple[str, ...]) -> tuple[Path, ...]:
    """Entries by pattern, without what a removal left."""
    return tuple(p for p in matches(place, patterns) if not is_trash(p))


def last_touched(run: RunFolder) -> float:
    """When somebody last worked on it, in seconds since 1970."""
    signs = (run.spec, run.events, run.report_json, run.inbox, run.setup, run.checkpoint)
    return max((p.stat().st_mtime for p in signs if p.exists()), default=time.time())
