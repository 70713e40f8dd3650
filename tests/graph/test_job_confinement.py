"""What each job of a real run may read and write, word for word: a path that is widened fails here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import WholeRun
from tuneloop.core.files import read_json
from tuneloop.core.job import Command
from tuneloop.core.run_spec import Setup
from tuneloop.sandboxes.jobs import read_command
from tuneloop.tools.jobs.machine import ENGINES

E, P = "run/experiments/001", "run/baseline/probe"
FACTORY, COMPASS = {"llamafactory", "python"}, {"opencompass", "python"}
PARTS = ("train", "lf_watch", "lf_checkpoints", "lf_cost", "lf_paths", "lf_processes")
TRAINER = {f"engines/llamafactory/{name}.py" for name in PARTS}
MEASURE = COMPASS | {"engines/opencompass", "scorer", "judging", "model"}
DATA = {"dataset", "run/datasets", f"{E}/process_data.py"}
# Of each job: what it reads, what it writes.
WALLS: dict[str, tuple[set[str], set[str]]] = {
    f"{E}/jobs/dry_run": (FACTORY | DATA, {f"{E}/work/dry_run-*"}),
    f"{E}/jobs/build_data": (FACTORY | DATA, {f"{E}/work/build_data-*"}),
    f"{E}/jobs/smoke_run": (
        FACTORY | TRAINER | {"model", f"{E}/work/smoke_run_data", f"{E}/work/smoke_run.input"},
        {f"{E}/work/smoke_run_model", f"{E}/work/smoke_run"},
    ),
    f"{E}/jobs/train": (
        FACTORY | TRAINER | {"model", f"{E}/data", f"{E}/work/train.input"},
        {f"{E}/model", f"{E}/work/train"},
    ),
    f"{E}/jobs/evaluate": (MEASURE | {f"{E}/model", f"{E}/work/evaluate.input"}, {f"{E}/work/evaluate"}),
    f"{P}/jobs/evaluate": (MEASURE | {f"{P}/work/evaluate.input"}, {f"{P}/work/evaluate"}),
    "run/baseline/jobs/evaluate": (MEASURE | {"run/baseline/work/evaluate.input"}, {"run/baseline/work/evaluate"}),
    "run/final/jobs/evaluate": (
        MEASURE | {"run/final/candidate", "run/final/work/evaluate.input"},
        {"run/final/work/evaluate"},
    ),
}
GENERATED = {f"{E}/jobs/dry_run", f"{E}/jobs/build_data"}
# What code believes, what later jobs are made of, and what nobody may change.
BELIEVED = [
    "run.yaml",
    "setup.json",
    "signature.json",
    "stamps.json",
    "stores.json",
    "events.jsonl",
    "checkpoint.sqlite",
    "report.md",
    "report.json",
    "inbox",
    "conversation.jsonl",
    "directives.jsonl",
    "lock",
    "baseline/scores.json",
    "baseline/hashes.json",
    "baseline/sealed",
    "baseline/validation.json",
    "baseline/probe/evaluation.json",
    "baseline/probe/jobs",
    "baseline/evaluation.json",
    "baseline/spent.json",
    "baseline/jobs",
    "final/test.json",
    "final/candidates.json",
    "final/candidate",
    "final/jobs",
    "best",
    "final/evaluation.json",
    "experiments/001/scores.json",
    "experiments/001/sealed",
    "experiments/001/evaluation.json",
    "experiments/001/experiment.json",
    "experiments/001/hashes.json",
    "experiments/001/training.json",
    "experiments/001/forecast.json",
    "experiments/001/hypothesis.json",
    "experiments/001/stopped.json",
    "experiments/001/answers",
    "experiments/001/jobs",
    "experiments/001/data",
    "experiments/001/train.yaml",
    "experiments/001/process_data.py",
    "experiments/001/pruned.json",
    "experiments/002",
]


@pytest.fixture(scope="module")
def jobs(whole_run: WholeRun) -> dict[str, Command]:
    """Every command of the run, its workers apart, by place without attempt."""
    root = whole_run.run.root
    found = {
        f"run/{path.parent.relative_to(root).with_suffix('')}": read_command(path.parent)
        for path in root.rglob("command.json")
    }
    return {name: command for name, command in found.items() if not name.startswith("run/workers/")}


def called(path: str, whole_run: WholeRun) -> str:
    """A path in the table's words."""
    run, setup = whole_run.run.root, Setup.model_validate(read_json(whole_run.run.setup))
    places = {
        run: "run",
        ENGINES: "engines",
        ENGINES.parent / "tools/scoring/answer_matching.py": "scorer",
        ENGINES.parent / "tools/scoring/scorer_loader.py": "judging",
        setup.model_root: "model",
        **dict.fromkeys(setup.datasets.values(), "dataset"),
    }
    for place, name in places.items():
        for root in {place, place.resolve()}:
            if Path(path).is_relative_to(root):
                return re.sub(r"-[0-9a-f]{16}$", "-*", str(Path(name) / Path(path).relative_to(root)))
    engine = re.search(r"/engines/(llamafactory|opencompass)-[0-9a-f]+$", path)
    of_python = path == "/usr" or "python" in path.lower() or "pyenv" in path
    return engine[1] if engine else "python" if of_python else path


def test_each_job_reads_and_writes_what_the_table_says(jobs: dict[str, Command], whole_run: WholeRun) -> None:
    found = {
        name: (
            {called(path, whole_run) for path in command.read},
            {called(path, whole_run) for path in command.write},
        )
        for name, command in jobs.items()
    }
    assert found == WALLS


def test_generated_code_is_marked_and_jobs_have_no_network(jobs: dict[str, Command]) -> None:
    assert {name for name, command in jobs.items() if command.generated} == GENERATED
    assert not [name for name, command in jobs.items() if command.network]
    assert not [name for name, command in jobs.items() if command.generated and command.worker]


def test_no_job_writes_what_is_believed(jobs: dict[str, Command], whole_run: WholeRun) -> None:
    """Neither a run's records, nor another job's input or output, nor what runs share."""
    run, home = whole_run.run.root, whole_run.home
    shared = [home / name for name in ("models", "engines", "benchmarks", "datasets", "cache")]
    for name, command in jobs.items():
        own = {Path(path) for path in command.write}
        believed = [run / path for path in BELIEVED] + shared + [Path(path) for path in command.read]
        believed += [Path(path) for other, c in jobs.items() if other != name for path in c.write]
        for place in own:
            reached = [p for p in believed if p.is_relative_to(place) or place.is_relative_to(p)]
            # A job's own folder of jobs and the run's folders around it are no files of it.
            assert reached == [], name


def test_what_is_right_is_in_the_final_job_only(jobs: dict[str, Command], whole_run: WholeRun) -> None:
    sealed = whole_run.home / "benchmarks" / "wordproblems"
    for command in jobs.values():
        for path in map(Path, (*command.read, *command.write)):
            assert not (sealed.is_relative_to(path) or path.is_relative_to(sealed))
