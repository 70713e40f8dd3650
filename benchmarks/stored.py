"""`tuneloop status` of a long run: 1,000 experiments and a million events, written by the real classes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from figures import figure
from place import Place
from processes import TUNELOOP, Spent, environment, spend, well

from tuneloop.core.events import Event, ExperimentFinished, JobProgress, NodeFinished, NodeStarted
from tuneloop.core.experiment import Critique, Experiment, Feedback, Hypothesis, Training
from tuneloop.core.files import write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.score import Comparison, ItemResult, Score
from tuneloop.tools.runs.manifest import write_manifest

EXPERIMENTS, EVENTS = 1000, 1_000_000
SMALL = (20, 2000)
NODES = (
    "research",
    "engineer_data",
    "write_config",
    "validate",
    "build_data",
    "smoke_run",
    "train",
    "evaluate",
    "critique",
)
WORDS = "Rows whose answer contradicts its own steps teach the model to guess; without them it will compute. "


def score(value: float, items: int = 0) -> Score:
    """A score as a run leaves it; experiments keep theirs without items."""
    results = tuple(
        ItemResult(id=f"v-{i:03}", prediction="7\n\\boxed{7}", parsed="7", answer="7", correct=True)
        for i in range(items)
    )
    parts = {"benchmark": "wordproblems", "split": "validation", "metric": "accuracy", "parsed": 99.0, "items": results}
    return Score.model_validate({**parts, "value": value, "low": value - 5, "high": value + 5, "n": 200})


def experiment(number: int) -> Experiment:
    """One of many; each tenth is promoted."""
    promoted = number % 10 == 1
    won, lost = (9, 7) if promoted else (7, 9)
    gain = (won - lost) / 2
    numbers = {"n": 200, "units": 200, "gain": gain, "low": gain - 4, "high": gain + 4, "wins": won, "losses": lost}
    comparison = Comparison.model_validate({**numbers, "better": promoted})
    losses = {"first_loss": 2.0, "last_loss": 0.2, "tail_slope": -0.01, "method": "full"}
    return Experiment(
        number=number,
        hypothesis=Hypothesis(statement=WORDS, reason=WORDS * 4, disproof=WORDS, aspect="noise"),
        training=Training.model_validate({"steps": 500, "seconds": 60.0, "rows": 2000, **losses}),
        score=score(40.0 + number / 40),
        feedback=Feedback(
            promoted=promoted,
            comparison=comparison,
            critique=Critique(explanation=WORDS * 6, lesson=WORDS, blame="noise"),
        ),
        seconds=100.0,
    )


def told(number: int, progress: int, at: datetime) -> list[Event]:
    """What one experiment says: its nodes, and `progress` reports of its training."""
    found: list[Event] = []
    for node in NODES:
        found.append(NodeStarted(at=at, experiment=number, node=node))
        if node == "train":
            reports = range(1, progress + 1)
            found += [
                JobProgress(at=at, experiment=number, job=node, done=i, total=progress, note="loss 0.2")
                for i in reports
            ]
        found.append(NodeFinished(at=at, experiment=number, node=node, seconds=1.0, cpu=0.1, detail="then next"))
    statement = ExperimentFinished(
        at=at, experiment=number, outcome="not promoted", statement=WORDS, value=40.0, seconds=100
    )
    return [*found, statement]


def write_run(place: Place) -> RunFolder:
    """The run's folder, paused in the middle of its next experiment."""
    count, total = SMALL if place.small else (EXPERIMENTS, EVENTS)
    place.say(f"status: writing a run of {count} experiments and {total} events")
    run = place.run("long")
    spec = RunSpec(benchmark="wordproblems", base_model="tiny")
    write_manifest(run, spec)
    write_json(run.baseline / "scores.json", score(20.0, items=200).model_dump(mode="json"))
    each = total // count
    at = datetime.now(UTC) - timedelta(days=2)
    with run.events.open("w", encoding="utf-8") as f:
        for number in range(1, count + 1):
            events = told(number, each - 2 * len(NODES) - 1, at + timedelta(seconds=100 * number))
            f.writelines(event.model_dump_json(exclude_none=True) + "\n" for event in events)
            folder = run.experiment(number)
            folder.root.mkdir(parents=True)
            folder.result.write_text(
                json.dumps(experiment(number).model_dump(mode="json"), indent=1, ensure_ascii=False)
            )
    place.note("long run, bytes of events.jsonl", run.events.stat().st_size)
    return run


@dataclass(frozen=True)
class Asked:
    """The cheapest of several calls."""

    wall: float
    cpu: float
    memory: float


def asked(place: Place) -> Asked:
    """`tuneloop status`, five times; a first call, which may read everything, is noted apart."""
    run = place.once(write_run)
    log, env = place.root / "status.txt", environment(place.home)

    def call() -> Spent:
        return well(spend([*TUNELOOP, "status", run.id], env=env, cwd=place.root, log=log), log)

    first, later = call(), [call() for _ in range(1 if place.small else 5)]
    place.note("status, first call", {"seconds": first.wall, "CPU": first.cpu, "MB": first.memory})
    place.note("status, later calls", {"seconds": [s.wall for s in later], "CPU": [s.cpu for s in later]})
    return Asked(min(s.wall for s in later), min(s.cpu for s in later), max(s.memory for s in (first, *later)))


@figure("status of 1,000 experiments and 1 M events", "s", "<= 0.5")
def seconds(place: Place) -> float:
    """The least of five calls, from the shell to the end."""
    return place.once(asked).wall


@figure("status of 1,000 experiments and 1 M events, memory", "MB", "<= 100")
def memory(place: Place) -> float:
    """The most of all calls, resident."""
    return place.once(asked).memory
