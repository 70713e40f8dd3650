"""A few experiments for real: the whole loop with the offline policy, and recipes drawn at random, on an unseen task."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from random import Random
from typing import Any

from planner.arena import Site, spec_of
from planner.collect import run
from tuneloop.core.errors import WorldError
from tuneloop.core.experiment import Experiment
from tuneloop.graph.runs import create_run, drive
from tuneloop.tools.runs.journal import load_journal


@dataclass(frozen=True)
class Real:
    """Validation scores in percent, an entry an experiment; None where it failed. `policy` holds whole experiments."""

    task: str
    policy: tuple[Experiment, ...]
    random: tuple[dict[str, Any], ...]


def really(site: Site, count: int) -> Real:
    """`count` experiments of each; the policy's are one run of the graph, from `tuneloop run`'s own functions."""
    ctx, name = site.ctx, site.arena.made.name
    drawn = [run(site, 1000 + i, site.arena.space.draw(Random(f"real {name} {i}"))) for i in range(1, count + 1)]
    settings = ctx.settings
    place = settings.home.run(f"loop-{name}")
    shutil.rmtree(place.root, ignore_errors=True)
    data = site.arena.data
    loop = create_run(spec_of(settings.home.root / "tasks" / name, data, loop_n=count), settings, place.id)
    done = drive(loop, settings)
    if done.state != "finished":
        raise WorldError(f"the run {loop.id} was not finished: {done.reason}")
    return Real(name, load_journal(loop).experiments, tuple(drawn))


def shipped(values: list[float | None], base: float) -> list[float]:
    """The best value so far after each experiment; what failed leaves what was there."""
    best, found = base, []
    for value in values:
        best = max(best, value if value is not None else best)
        found.append(best)
    return found
