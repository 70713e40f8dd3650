"""The scorer beside a GRPO training: one with other answers never tells what a reply is worth."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.prepared import prepared, wordproblems
from tests.waiting import until
from tuneloop.core.files import digest, read_json, write_atomic
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.tools.config.grpo_config import GrpoConfig
from tuneloop.tools.engines import Engine
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.scoring import scorer
from tuneloop.tools.training import grpo, methods
from tuneloop.tools.training.grpo import SCORE, GrpoJobs, scoring_facts


@pytest.fixture
def jobs(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GrpoJobs]:
    """Of a first experiment; this Python is the engine, which scoring by its benchmark does not need."""
    settings = Settings(FT_FILE_PATH=tmp_path / "home")
    run = settings.home.run("r")
    prepared(run, RunSpec(benchmark="wordproblems", base_model="tiny"), wordproblems(settings.home), tiny)
    python = Path(sys.executable)
    engine = Engine("opencompass", python.parent, python, python.parent, (), "-", "-")
    monkeypatch.setattr(RunTools, "engine", lambda *_: engine)
    run_tools = RunTools(run, settings)
    vars(run_tools)["sandbox"] = ProcessSandbox(allow_generated=True)
    benchmark = run_tools.setup.benchmark
    made = GrpoJobs(run_tools, run.experiment(1), "one", GrpoConfig(), benchmark, tiny, new_adapter=False, seed=1)
    yield made
    run_tools.stop(made.folder.jobs, SCORE)


def scored(jobs: GrpoJobs, name: str, reply: str) -> list[float]:
    write_atomic(jobs.exchange / f"{name}.ask", json.dumps([{"row": 0, "reply": reply}]))
    told = jobs.exchange / f"{name}.told"
    until(told.is_file, 60)
    found: list[float] = read_json(told)
    return found


def test_the_scorer_of_other_answers_is_ended_and_what_it_told_is_forgotten(jobs: GrpoJobs) -> None:
    jobs.write_items([{"prompt": "p"}], [{"answer": "3"}])
    jobs.start_scorer()
    assert scored(jobs, "a", "\\boxed{3}") == [1]
    jobs.start_scorer()
    assert (jobs.exchange / "a.told").is_file(), "with the same answers it is found"
    repaired = replace(jobs, key="two")
    repaired.write_items([{"prompt": "p"}], [{"answer": "4"}])
    repaired.start_scorer()
    assert not (jobs.exchange / "a.told").exists()
    assert scored(repaired, "a", "\\boxed{3}") == [0]
    assert sorted(path.name for path in jobs.folder.jobs.glob("score.*")) == ["score.1", "score.2"]


def test_a_reply_is_cut_where_the_evaluation_cuts_it(jobs: GrpoJobs) -> None:
    own = replace(jobs, benchmark=jobs.benchmark.model_copy(update={"stop": ("Q:",)}))
    own.write_items([{"prompt": "p"}], [{"answer": "3"}])
    own.start_scorer()
    assert scored(own, "a", "\\boxed{3} Q: And now? \\boxed{4}") == [1]


def test_a_scorer_that_is_over_leaves_nothing_to_another_recipe(jobs: GrpoJobs) -> None:
    jobs.write_items([{"prompt": "p"}], [{"answer": "3"}])
    jobs.start_scorer()
    assert scored(jobs, "a", "\\boxed{3}") == [1]
    methods.end(jobs.tools, jobs.folder)
    until(lambda: jobs.tools.status(jobs.folder.jobs, SCORE)[0].state == "over", 60)
    replace(jobs, key="two").start_scorer()
    assert not (jobs.exchange / "a.told").exists()


def test_what_decides_a_score_decides_the_training(
    jobs: GrpoJobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = jobs.benchmark.model_copy(update={"answer": "scorer:own"})
    own, answering = tmp_path / "scorers" / "own.py", tmp_path / "answering.py"
    known = tmp_path / "files" / "words.txt"
    tools = RunTools(jobs.tools.run, jobs.tools.settings.model_copy(update={"scorer_files": known.parent}))
    monkeypatch.setattr(scorer, "OURS", own.parent)
    monkeypatch.setattr(grpo, "ANSWERS", (answering,))
    for file in (own, answering, known):
        write_atomic(file, 'FILES = {"words.txt": ""}')
    told = [scoring_facts(tools, declared)]
    for file in (own, answering, known):
        write_atomic(file, 'FILES = {"words.txt": ""}  # other')
        scorer.scorer_hash.cache_clear()
        told.append(scoring_facts(tools, declared))
    assert len({digest(*facts) for facts in told}) == 4
    engine = tools.engine("opencompass")
    monkeypatch.setattr(RunTools, "engine", lambda _, name: replace(engine, identity=name))
    assert "reasoning_gym" in scoring_facts(tools, declared.model_copy(update={"engine": "reasoning_gym"}))
