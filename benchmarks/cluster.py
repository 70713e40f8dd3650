"""A thousand experiments on a hundred nodes that exist on paper: the real graph, agents, files and checkpoints; jobs are drawn.

`python benchmarks/cluster.py --experiments 300` prints one simulation as JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

sys.path.append(str(Path(__file__).resolve().parent))

from cluster_nodes import HOUR, Cluster, SimulatedSandbox, World
from figures import figure
from place import Place

from tuneloop.agents.policy import planner
from tuneloop.agents.policy.researcher import propose_hypothesis
from tuneloop.core.brief import Brief
from tuneloop.core.experiment import Hypothesis
from tuneloop.core.files import write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.protocols import Toolbox
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph import build, context, step
from tuneloop.graph import wait as waiting
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle import create_run, side_by_side
from tuneloop.graph.lifecycle.drive import create_run as begin_run
from tuneloop.graph.lifecycle.drive import drive
from tuneloop.sandboxes.choose import open_sandbox
from tuneloop.tools.jobs import run_tools
from tuneloop.tools.runs.journal import load_journal

ITEMS, LOOK = 200, 0.5


async def propose(brief: Brief, tools: Toolbox) -> Hypothesis:
    """The offline policy's idea, and where it has none left its last one at another learning rate."""
    found = await propose_hypothesis(brief, tools)
    if not found.stop:
        return found
    last = brief.journal[-1].hypothesis
    rate = float(f"{random.Random(len(brief.journal)).uniform(1e-5, 1e-3):.3g}")
    changed = {"statement": f"The same at {rate:g}.", "training_plan": {**last.training_plan, "learning_rate": rate}}
    return last.model_copy(update=changed)


@dataclass
class Measured:
    """CPU seconds of the orchestrator's process: `waiting`, in cores, by experiments that were over; without these `worked`."""

    watch: float
    moments: list[int]
    waiting: dict[int, float] = field(default_factory=dict)
    marks: dict[int, float] = field(default_factory=dict)  # experiments over → CPU seconds so far
    apart: float = 0.0
    until: float = 0.0
    prepared: float = 0.0  # before the first experiment

    def cpu(self) -> float:
        """Of the simulation's nodes so far."""
        return time.process_time() - self.apart


class Simulation:
    """One run of `experiments`; for `watch` seconds at each of `moments` (experiments that are over) it waits in real time."""

    def __init__(self, run: RunFolder, world: World, measured: Measured) -> None:
        self.run, self.cluster, self.measured, self.begun = run, Cluster(world), measured, measured.cpu()
        self.sandbox = SimulatedSandbox(self.cluster, open_sandbox("auto"))
        self.real_sleep, self.real_wait = waiting.sleep_until_poll, wait

    def sleep(self, ctx: Context, waited: float, proof: Path | None) -> None:
        """In place of `sleep_until_poll`."""
        if self.measured.until:
            self.real_sleep(ctx, waited, proof)
        elif proof is not None:
            self.cluster.sleep(proof.parent)

    def wait(self, work: dict[Future[Any], int], timeout: float = LOOK, when: str = FIRST_COMPLETED) -> Any:
        """In place of `wait`: where everybody waits for a job, it is now the end of the first of them."""
        measured, cluster = self.measured, self.cluster
        measured.prepared = measured.prepared or measured.cpu() - self.begun
        if measured.until:
            found = self.real_wait(work, timeout, when)
            if time.monotonic() >= measured.until:
                self.end_watch()
            return found
        while (found := cluster.wait(work)) is None:
            closed = len(load_journal(self.run).experiments)
            measured.marks.setdefault(closed, measured.cpu())
            if measured.moments and closed >= measured.moments[0]:
                measured.moments.pop(0)
                self.begin_watch(closed)
                return self.real_wait(work, 0, when)
            with cluster.changed:
                cluster.skip()
        if any(future.exception() for future in found.done):
            self.begin_watch(0)  # the session ends: whoever waits has to notice
            measured.until = math.inf
        return found

    def begin_watch(self, closed: int) -> None:
        """Everybody waits as on a real cluster from now on."""
        measured, cluster = self.measured, self.cluster
        measured.until = time.monotonic() + measured.watch
        self.closed, self.before, self.began = closed, time.process_time(), time.monotonic()
        with cluster.changed:
            for job in cluster.jobs.values():
                cluster.rouse(job)

    def end_watch(self) -> None:
        """Time is skipped again."""
        used = time.process_time() - self.before
        self.measured.waiting[self.closed] = used / (time.monotonic() - self.began)
        self.measured.apart, self.measured.until = self.measured.apart + used, 0.0

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The simulated cluster where the real one would be; the sealed test is left out."""
        clock = SimpleNamespace(monotonic=self.cluster.now, process_time=time.process_time)

        def opened(*_: Any) -> SimulatedSandbox:
            return self.sandbox

        def finish(ctx: Context) -> dict[str, Any]:
            write_json(ctx.run.report_json, {})
            return {"stage": "__end__"}

        with ExitStack() as patched:
            for module in (waiting, step, side_by_side, context):
                patched.enter_context(patch.object(module, "time", clock))
            for module in (create_run, run_tools):
                patched.enter_context(patch.object(module, "open_nodes", opened))
            patched.enter_context(patch.object(waiting, "sleep_until_poll", self.sleep))
            patched.enter_context(patch.object(side_by_side, "wait", self.wait))
            patched.enter_context(patch.dict(planner.AGENTS, {"researcher": propose}))
            patched.enter_context(patch.dict(build.NODES, {"finish": (finish, *build.NODES["finish"][1:])}))
            yield


def simulate(settings: Settings, name: str, experiments: int, slots: int, world: World, watch: float) -> dict[str, Any]:
    """What a run costs and how busy its nodes are."""
    asked = {"benchmark": "wordproblems", "base_model": "tiny", "benchmark_limit": ITEMS, "executor": "slurm"}
    spec = RunSpec.model_validate({**asked, "loop_n": experiments, "parallel": slots, "seed": world.seed})
    measured = Measured(watch, [experiments // 4] if watch else [])
    sim = Simulation(settings.home.run(name), world, measured)
    began, before = time.monotonic(), time.process_time()
    with sim.in_place():
        run = begin_run(spec, settings, name)
        outcome = drive(run, settings)
    if outcome.state != "finished":
        raise RuntimeError(f"the simulated run is {outcome.state}: {outcome.reason}")
    each = (time.process_time() - before - measured.apart - measured.prepared) / experiments
    hours = world.hours + (world.smoke + world.evaluation) / HOUR
    cores = each * world.nodes / (hours * HOUR) + max(measured.waiting.values(), default=0.0)
    return {
        "experiments": experiments,
        "slots": slots,
        "window": spec.window,
        **vars(world),
        **utilisation(sim.cluster, experiments),
        "outcomes": outcomes(run),
        "cpu_per_experiment": each,
        "waiting_cores": measured.waiting,
        "cores": cores,
        "marks": thinned(measured.marks),
        "checkpoint_bytes": sum(f.stat().st_size for f in run.root.glob(f"{run.checkpoint.name}*")),
        "event_bytes": run.events.stat().st_size,
        **files(run),
        "real_seconds": time.monotonic() - began,
    }


def utilisation(cluster: Cluster, experiments: int) -> dict[str, float]:
    """Of the time of all nodes: worked in to some end, by the whole run and until the last idea has a node; and lost."""
    own = [one for one in cluster.worked if not one.first.startswith("baseline")]
    first, end = min(one.began for one in own), max(one.ended for one in own)
    last = min(one.began for one in own if one.first.startswith(f"{experiments:03d}/"))
    nodes = cluster.world.nodes

    def share(until: float) -> float:
        parts = (min(one.ended - one.lost, until) - one.began for one in own)
        return sum(max(0.0, part) for part in parts) / nodes / (until - first)

    return {
        "hours": (end - first) / HOUR,
        "utilisation": share(last),
        "utilisation_whole": share(end),
        "node_failures": cluster.failures,
        "redone_share": sum(one.lost for one in own) / sum(one.ended - one.began for one in own),
        "down_share": cluster.down / nodes / (end - first),
    }


def outcomes(run: RunFolder) -> dict[str, int]:
    """How many experiments ended how."""
    found = [one.outcome for one in load_journal(run).experiments]
    return {name: found.count(name) for name in sorted(set(found))}


def files(run: RunFolder) -> dict[str, float]:
    """Files of the run and their bytes."""
    there = [path for path in run.root.rglob("*") if path.is_file()]
    return {"files": len(there), "file_bytes": sum(path.stat().st_size for path in there)}


def thinned(marks: dict[int, float]) -> dict[int, float]:
    """About ten of them."""
    every = max(1, max(marks, default=1) // 10)
    return {closed: round(cpu, 2) for closed, cpu in marks.items() if closed % every == 0}


def own_settings(home: Path, engines: Path) -> Settings:
    """A home without the engine of GRPO, whose jobs are not simulated."""
    for name in ("llamafactory", "opencompass"):
        for folder in engines.glob(f"{name}-*"):
            (home / "two").mkdir(parents=True, exist_ok=True)
            (home / "two" / folder.name).symlink_to(folder.resolve())
    own = {"FT_FILE_PATH": home, "FT_ENGINES_DIR": home / "two", "FT_DOCKER_ENABLE_CACHE": False}
    return Settings.model_validate(own)


def simulated(place: Place) -> dict[str, Any]:
    """As many experiments as the window leaves room for, on 100 nodes; small: a few on three."""
    count, slots, world, watch = (5, 3, World(nodes=3), 1.0) if place.small else (1000, 100, World(), 30.0)
    found = simulate(
        own_settings(place.root / "cluster", place.home / "engines"), "cluster", count, slots, world, watch
    )
    place.note("simulated cluster", found)
    return found


@figure("orchestration of 100 nodes", "cores", "<= 1", by_default=False)
def orchestration(place: Place) -> float:
    """CPU seconds of an experiment at the rate at which 100 nodes end them, and what waiting for 100 jobs takes."""
    return float(place.once(simulated)["cores"])


@figure("utilisation of 100 nodes", "%", ">= 95", by_default=False)
def busy(place: Place) -> float:
    """Worked in to some end, from the first job until the last experiment has a node."""
    return 100 * float(place.once(simulated)["utilisation"])


@figure("state of an experiment on a cluster", "KB", "<= 1000", by_default=False)
def state(place: Place) -> float:
    """All files of the run, by experiment; the weights are of nothing."""
    found = place.once(simulated)
    return float(found["file_bytes"]) / 1024 / float(found["experiments"])


@figure("node time lost to failures", "%", "<= 1", by_default=False)
def lost(place: Place) -> float:
    """Of the time that nodes worked, what had to be done again."""
    return 100 * float(place.once(simulated)["redone_share"])


def main() -> None:
    """One simulation in a home of its own."""
    import tempfile

    from tuneloop.core.settings import load_settings

    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("experiments", 1000), ("slots", 100), ("nodes", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, value in (("hours", 6.0), ("spread", 0.3), ("failing", 0.15), ("node-days", 1000 / 6.5), ("watch", 20.0)):
        parser.add_argument(f"--{name}", type=float, default=value)
    parser.add_argument("--home", type=Path)
    given = parser.parse_args()
    home = given.home or Path(tempfile.mkdtemp(prefix="tuneloop-cluster-"))
    world = World(given.nodes, given.hours, given.spread, given.failing, given.node_days)
    print(
        json.dumps(
            simulate(
                own_settings(home, load_settings().home.engines),
                "cluster",
                given.experiments,
                given.slots,
                world,
                given.watch,
            ),
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
