"""A few experiments for real: the whole loop with the offline policy, and recipes drawn at random, on an unseen task."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from random import Random
from typing import Any

from processes import environment, spend, well

from planner.arena import Site
from planner.collect import run
from tuneloop.core.experiment import Experiment
from tuneloop.tools.runs.journal import load_journal


@dataclass(frozen=True)
class Real:
    """Validation scores in percent, an entry an experiment; None where it failed. `policy` holds whole experiments."""

    task: str
    policy: tuple[Experiment, ...]
    random: tuple[dict[str, Any], ...]


def really(site: Site, count: int) -> Real:
    """`count` experiments of each; the policy's are one `tuneloop run`. Raises RuntimeError when that fails."""
    name, root = site.arena.made.name, site.ctx.settings.home.root
    drawn = [run(site, 1000 + i, site.arena.space.draw(Random(f"real {name} {i}"))) for i in range(1, count + 1)]
    loop = site.ctx.settings.home.run(f"loop-{name}")
    shutil.rmtree(loop.root, ignore_errors=True)
    given = ("--benchmark", str(root / "tasks" / name), "--dataset", str(site.arena.data), "--base-model", "tiny")
    argv = [sys.executable, "-m", "tuneloop.cli.main", "run", *given, "--loop-n", str(count), "--run-id", loop.id]
    log = root / "loop.txt"
    well(spend(argv, env=environment(root) | {"CHAT_MODEL": ""}, cwd=root, log=log), log)
    return Real(name, load_journal(loop).experiments, tuple(drawn))


def shipped(values: list[float | None], base: float) -> list[float]:
    """The best value so far after each experiment; what failed leaves what was there."""
    best, found = base, []
    for value in values:
        best = max(best, value if value is not None else best)
        found.append(best)
    return found
