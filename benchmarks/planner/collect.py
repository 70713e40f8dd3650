"""Real runs of recipes drawn from the space: the policy's own scripts and configs, real trainings, real evaluations."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from planner.arena import Arena, Site
from planner.made_task import family
from planner.space import STYLES, Point, loaded
from tuneloop.agents.policy import OfflinePolicy
from tuneloop.agents.policy.researcher import first_hypothesis, spacing_of
from tuneloop.core.async_bridge import run_sync
from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import DataScript, TrainConfig, Training
from tuneloop.core.files import read_json, read_lines, write_atomic, write_json
from tuneloop.core.locks import exclusive
from tuneloop.core.score import ItemResult, Score
from tuneloop.graph.nodes.build_data import build_data
from tuneloop.graph.nodes.evaluate import measure_experiment
from tuneloop.graph.nodes.train import finished_training
from tuneloop.tools.scoring.failures import failure_kind
from tuneloop.tools.training.result import log_points

RUNS = Path(__file__).with_name("runs")  # a file a family, so that families can be collected side by side
SHORT = RUNS / "short"  # some of the same recipes with a quarter of the steps, under the same numbers
QUARTER = 0.25
Recipe = Callable[[Arena, int], Point]
NEAR_RATES, NEAR_STEPS = (5e-4, 6e-3), 60
DRAWN = 60  # runs of a task; what is collected after them lies about the policy's first recipe
BEST = 1000  # runs with higher numbers are of what a surface called best
PARTS = (("sources",), ("style",), ("votes",), ("method", "rate", "rank"), ("steps",))
SHOWN, OF_BASE, LONGEST, CURVE = 6, 30, 240, 12


def drawn(arena: Arena, number: int) -> Point:
    """The recipe of a task's n-th run: one in four uniform, the others uniform where recipes that work lie.

    The good part is what the model's own pre-training says (equations, enough steps, a usual rate), not what a player does.
    """
    rng = Random(f"{arena.made.name} {number}")
    if number > DRAWN:
        return beside_first(arena, rng) if number > DRAWN + 1 else first_recipe(arena)
    while True:
        point = arena.space.draw(rng)
        near = point.style in STYLES[1:3] and NEAR_RATES[0] <= point.rate <= NEAR_RATES[1] and point.steps >= NEAR_STEPS
        if number % 4 == 1 or near:
            return point


def first_recipe(arena: Arena) -> Point:
    """What the policy begins with, in the space."""
    base = next(run for run in known() if run["number"] == 0 and family(run["task"]) == family(arena.made.name))
    spacing = spacing_of(str(failure["prediction"]) for failure in base["failures"])
    idea = first_hypothesis(arena.space.situation, arena.space.parameter_map, spacing)
    return arena.space.point(idea)[0]


def beside_first(arena: Arena, rng: Random) -> Point:
    """The policy's first recipe with one part in four from anywhere in the space, one operation in eight on or off instead."""
    first, other = first_recipe(arena), arena.space.draw(rng)
    chosen = [name for part in PARTS if rng.random() < 0.25 for name in part]
    does = tuple(do for do in arena.space.turned if (do in first.does) != (rng.random() < 0.125))
    return replace(first, does=does, **{name: getattr(other, name) for name in chosen})


def known(folder: Path = RUNS) -> list[dict[str, Any]]:
    """The runs so far, of all families."""
    return [row for path in sorted(folder.glob("*.jsonl")) for row in read_lines(path)]


def shortened(arena: Arena, number: int) -> Point:
    """The recipe of a task's recorded run `number` with a quarter of its steps."""
    run = next(run for run in known() if (run["task"], run["number"]) == (arena.made.name, number))
    point = arena.space.renamed(loaded(run["point"]))
    return replace(point, steps=max(1, round(QUARTER * point.steps)))


def collect(site: Site, number: int, folder: Path = RUNS, recipe: Recipe = drawn) -> dict[str, Any] | None:
    """Make and record a task's run `number`, 0 for the untouched model; None when it is recorded already."""
    name = site.arena.made.name
    path = folder / f"{family(name)}.jsonl"
    if recorded(path, name, number):
        return None
    row = run(site, number, recipe(site.arena, number)) if number else untouched(site)
    append(path, row)
    return row


def recorded(path: Path, task: str, number: int) -> bool:
    """Whether the file holds that run."""
    rows = read_lines(path) if path.is_file() else ()
    return any((row["task"], row["number"]) == (task, number) for row in rows)


def append(path: Path, row: dict[str, Any]) -> None:
    """Add a run as one line, unless another process was faster."""
    path.parent.mkdir(exist_ok=True)
    with exclusive(path):
        if not recorded(path, row["task"], row["number"]):
            with path.open("a", encoding="utf-8") as f:
                f.write(json.dumps(row) + "\n")


def untouched(site: Site) -> dict[str, Any]:
    """The base model, as run 0."""
    return {
        "task": site.arena.made.name,
        "number": 0,
        "versions": site.ctx.run_tools.setup.versions,
        **outcome(measure_experiment(site.ctx, 0)[0], site.arena.brief.task.max_new_tokens, OF_BASE),
    }


def run(site: Site, number: int, point: Point) -> dict[str, Any]:
    """One recipe through the graph's own nodes; a recipe that breaks leaves its failure."""
    began = time.monotonic()
    head = {
        "task": site.arena.made.name,
        "number": number,
        "point": point.dumped(),
        "versions": site.ctx.run_tools.setup.versions,
    }
    try:
        found = measured(site, number, point)
    except RecipeError as e:
        found = {"failure": str(e)[:400]}
    shutil.rmtree(site.ctx.run.experiment(number).root, ignore_errors=True)
    return {**head, **found, "seconds": round(time.monotonic() - began, 1)}


def measured(site: Site, number: int, point: Point) -> dict[str, Any]:
    """What came out. Raises RecipeError."""
    ctx, policy, arena = site.at(number), OfflinePolicy(), site.arena
    folder, idea = ctx.folder, arena.space.hypothesis(point)
    brief = arena.brief.model_copy(update={"hypothesis": idea, "experiment": number})
    write_json(folder.hypothesis, idea.model_dump(mode="json"))
    script = run_sync(policy.answer("data_engineer", "", brief, arena.tools, DataScript))
    write_atomic(folder.script, script.code)
    config = run_sync(policy.answer("config_coder", "", brief, arena.tools, TrainConfig))
    write_atomic(folder.config, config.yaml)
    build_data(ctx)
    training = finished_training(ctx)
    score = measure_experiment(ctx, number)[0]
    return {
        "rows": read_json(folder.data / "report.json")["rows"],
        **outcome(score, brief.task.max_new_tokens, SHOWN),
        "training": told(training),
        "curve": curve(folder.model),
    }


def outcome(score: Score, longest: int, shown: int) -> dict[str, Any]:
    """Value, what could be read, right and wrong by item in the items' order, some failures."""
    items = sorted(score.every, key=lambda item: item.id)
    failed = [item for item in items if not item.correct]
    kinds = [failure_kind(item, longest) for item in failed]
    return {
        "value": score.value,
        "parsed": score.parsed,
        "items": "".join("01"[item.correct] for item in items),
        "kinds": {str(kind): kinds.count(kind) for kind in sorted(set(kinds), key=str)},
        "failures": [failure(item) for item in Random(score.n).sample(failed, min(shown, len(failed)))],
    }


def failure(item: ItemResult) -> dict[str, Any]:
    """An item that was not solved, its reply cut to what is looked at."""
    return {"id": item.id, "prediction": item.prediction[:LONGEST], "parsed": item.parsed, "answer": item.answer}


def told(training: Training) -> dict[str, Any]:
    """What the journal says of a training."""
    keys = ("steps", "seconds", "rows", "first_loss", "last_loss", "tail_slope", "method", "stopped")
    return {key: training.model_dump(mode="json")[key] for key in keys}


def curve(model: Path) -> list[tuple[int, float]]:
    """A few points of the training loss."""
    points = [(int(p["current_steps"]), float(p["loss"])) for p in log_points(model) if "loss" in p]
    return points[:: max(1, len(points) // CURVE)]
