"""A task of the bench without an engine: real profiles, a real suggestion, made-up runs under the surface."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.agents.policy.conftest import World as Tools
from tuneloop.core.catalog import Item
from tuneloop.tools.benchmark_items.user_folder import read_declaration

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

if TYPE_CHECKING:
    from planner.arena import Arena
    from planner.rows import RowMaker
    from planner.simulated_task import SimulatedTask


def tools_of(name: str, folder: Path) -> Tools:
    """A task with fewer rows."""
    from planner.tasks import make

    made = make(name)
    made = type(made)(**{**vars(made), "files": {name: rows[:300] for name, rows in made.files.items()}})
    benchmark, _ = made.write(folder)
    items = [Item(id=row["id"], fields={"question": row["question"]}, answer=row["answer"]) for row in made.validation]
    return Tools(folder, read_declaration(benchmark / "benchmark.yaml", None), items)


def arena_of(name: str, tools: Tools) -> Arena:
    """What players see of it."""
    from planner.arena import Arena
    from planner.tasks import make

    data = tools.root / f"{name}-raw"
    task = tools.brief().task.model_copy(update={"datasets": (data.name,)})
    brief = tools.brief(task=task)
    tools.answers["params_query_parameters"] = {
        "kind": "search",
        "names": ["finetuning_type", "learning_rate", "max_steps", "num_train_epochs", "lora_rank"],
    }
    return Arena(make(name), data, data.parent, brief, tools)


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    """The second task, with a seed of its own."""
    return tools_of("till77", tmp_path_factory.mktemp("tasks"))


@pytest.fixture(scope="session")
def arena(tools: Tools) -> Arena:
    """What players see of it."""
    return arena_of("till77", tools)


@pytest.fixture(scope="session")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    """A task whose answers are letters."""
    return arena_of("choice77", tools_of("choice77", tmp_path_factory.mktemp("letters")))


@pytest.fixture(scope="session")
def padded(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    """A task with solutions that are too long for a reply."""
    return arena_of("chains77", tools_of("chains77", tmp_path_factory.mktemp("padded")))


@pytest.fixture(scope="session")
def row_maker(arena: Arena) -> RowMaker:
    """Makes its rows."""
    from planner.rows import RowMaker

    return RowMaker(arena)


@pytest.fixture(scope="session")
def simulated(arena: Arena, row_maker: RowMaker) -> SimulatedTask:
    """Over a surface of made-up runs: equations with right answers are worth something."""
    from planner.simulated_task import SimulatedTask
    from planner.surface import features, surface

    rng = Random(5)
    points = [arena.space.draw(rng) for _ in range(14)]
    made = [row_maker.stats(point) for point in points]
    runs = [run(i, 80 * m.compact * (1 - m.wrong)) for i, m in enumerate(made)]
    x = np.stack([features("till", m, p) for m, p in zip(made, points, strict=True)])
    base = {"value": 1.0, "parsed": 100.0, "items": "1" * 2 + "0" * 198, "failures": run(0, 0.0)["failures"]}
    return SimulatedTask(arena, row_maker, surface(runs, x), base, "till")


def run(number: int, value: float) -> dict[str, Any]:
    """A made-up real run."""
    training = {"first_loss": 2.0, "last_loss": 0.2, "tail_slope": -0.02}
    failures = [
        {"id": "validation-001", "prediction": f"{number}+2=9\nAnswer: 9", "parsed": "9", "answer": "8"},
        {"id": "validation-002", "prediction": "what", "parsed": None, "answer": "8"},
    ]
    return {
        "task": "till3",
        "number": number,
        "value": value,
        "parsed": 95.0,
        "training": training,
        "failures": failures,
    }
