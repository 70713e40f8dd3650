"""Shared by the graph's tests: a long run as its folder would be, written through the real classes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tuneloop.core.events import (
    AgentAnswered,
    Event,
    ExperimentFinished,
    JobProgress,
    NodeFinished,
    NodeStarted,
    RunStarted,
)
from tuneloop.core.experiment import Critique, Experiment, Feedback, Hypothesis, Training
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.score import Comparison, ItemResult, Score
from tuneloop.tools.runs.manifest import write_manifest
from tuneloop.tools.runs.signature import write_signed_setup

NODES = ("research", "engineer_data", "write_config", "validate", "build_data", "smoke_run", "train", "evaluate")
SECONDS = 10.0


def score(value: float, items: int = 0) -> Score:
    """A validation score; its items when asked for."""
    made = tuple(
        ItemResult(id=str(i), prediction="x" * 200, parsed="1", answer="2", correct=False) for i in range(items)
    )
    return Score(
        benchmark="b", split="validation", metric="accuracy", value=value, low=value, high=value, n=200, parsed=99, items=made
    )  # fmt: skip


def experiment(number: int) -> Experiment:
    """One that was scored; every seventh was promoted."""
    idea = Hypothesis(statement=f"idea {number} " * 10, reason="evidence " * 20, disproof="no gain", aspect="rate")
    verdict = Comparison(n=200, units=200, gain=1, low=-0.5, high=2.5, wins=3, losses=1, better=number % 7 == 0)
    told = Critique(explanation="because " * 60, lesson="keep it " * 10)
    training = Training(steps=100, seconds=60, rows=800, first_loss=2, last_loss=0.1, tail_slope=-0.1, method="full")
    return Experiment(
        number=number,
        hypothesis=idea,
        training=training,
        score=score(50 + number % 40),
        feedback=Feedback(promoted=verdict.better, comparison=verdict, critique=told),
        seconds=SECONDS * len(NODES),
    )


def events(run: str, experiments: int, progress: int) -> list[Event]:
    """What one orchestrator says, `progress` lines of each job among it."""
    said: list[Event] = [RunStarted(run=run, benchmark="b", base_model="m", planner="offline", sandbox="process")]
    for number in range(1, experiments + 1):
        for node in NODES:
            said.append(NodeStarted(experiment=number, node=node))
            said += [JobProgress(experiment=number, job=node, done=i, total=progress) for i in range(progress)]
            said.append(NodeFinished(experiment=number, node=node, seconds=SECONDS))
        said.append(AgentAnswered(experiment=number, agent="critic", says="lesson", why="evidence"))
        said.append(ExperimentFinished(experiment=number, outcome="not promoted", statement="idea", value=50))
    return said


@pytest.fixture(scope="session")
def make_long_run() -> Callable[..., RunFolder]:
    """`make_long_run(run, experiments=…, progress=…)`."""
    return long_run


def long_run(run: RunFolder, experiments: int, progress: int) -> RunFolder:
    """Write manifest, baseline, `experiments` folders and about `experiments * 8 * progress` events."""
    write_manifest(run, RunSpec(benchmark="b", base_model="m"))
    run.baseline.mkdir()
    (run.baseline / "scores.json").write_text(score(10, items=200).model_dump_json())
    (run.baseline / "spent.json").write_text('{"seconds": 5.0}')
    write_signed_setup(run, "{}")
    for number in range(1, experiments + 1):
        folder = run.experiment(number)
        folder.root.mkdir(parents=True)
        folder.result.write_text(experiment(number).model_dump_json())
    write_events(run.events, events(run.id, experiments, progress))
    return run


def write_events(path: Path, said: list[Event]) -> None:
    """All at once."""
    with path.open("w") as f:
        f.writelines(e.model_dump_json(exclude_none=True) + "\n" for e in said)
