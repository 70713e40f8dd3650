"""Everything that may go, nothing touched.

Nothing of a run that is worked on or has a job that lives, nothing below `benchmarks/` (sealed splits, the ledger of
reads), nothing behind a link. Whoever removes a find looks again under its owner's lock.
"""

from __future__ import annotations

from tuneloop.core.layout import Home, RunFolder
from tuneloop.tools.cleaning.find import Find, Wanted
from tuneloop.tools.cleaning.look import folders, look
from tuneloop.tools.cleaning.of_runs import ReadJournal, of_run
from tuneloop.tools.cleaning.of_shared import of_cache, of_engines, of_evaluations, of_proxies, of_stores

LEAST_CACHE = 100_000  # an empty cache is no find


def survey(home: Home, wanted: Wanted, read_journal: ReadJournal) -> list[Find]:
    """What may go by what is wanted, in the order of the folders."""
    runs = [RunFolder(path) for path in folders(home.runs) if path.name[0] != "." and (path / "run.yaml").is_file()]
    chosen = [run for run in runs if wanted.run is None or run.root == wanted.run.root]
    looks = {run.id: look(run.root) for run in chosen}
    found = [
        find for run in chosen if not looks[run.id].alive for find in of_run(run, looks[run.id], wanted, read_journal)
    ]
    if wanted.run is None:
        found += [
            *of_evaluations(home, wanted.older),
            *of_stores(home),
            *of_proxies(home),
            *of_engines(home, runs, unused=wanted.engines),
        ]
        if not any(inside.alive for inside in looks.values()):
            found += of_cache(home)
    return [find for find in found if find.paths and (find.kind != "caches" or find.bytes > LEAST_CACHE)]
