"""An evaluation of a run: only what no run has measured becomes a job, and it says where its answers are from."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from tests.prepared import prepared, wordproblems
from tuneloop.core.errors import InfrastructureError, InvalidRequestError, RecipeError
from tuneloop.core.files import write_atomic
from tuneloop.core.job import JobReport, JobStatus
from tuneloop.core.layout import Home
from tuneloop.core.run_spec import PlacedBenchmark, RunSpec
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items.folder import select_validation
from tuneloop.tools.evaluation.run_evaluation import (
    evaluation_status,
    measuring_conditions,
    precision_of,
    probe_place,
    probe_seconds,
    probe_status,
    sealed_precision,
    sealed_scores,
    sealed_status,
    start_evaluation,
    start_probe,
    start_sealed,
    validation_scores,
    validation_sets,
)
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.jobs.warm_workers import WarmWorkers

# Stands for the engine's Python: answers every item in the way that the job's folder tells, as measure.py would write it.
STAND_IN = """\
#!{python}
import importlib.util, json, pathlib, sys
job = json.loads(pathlib.Path(sys.argv[2]).read_text())
spec = importlib.util.spec_from_file_location("judging", job["judging"])
judging = importlib.util.module_from_spec(spec)
spec.loader.exec_module(judging)
results = []
for model in job["models"]:
    for given in (one for one in job["sets"] if one["name"] in model["sets"]):
        rows, judge = [], judging.judge_of(job["scoring"], given["answer_kind"], given["scorer"])
        for line in pathlib.Path(given["items"]).read_text().splitlines():
            item = json.loads(line)
            text = "\\\\boxed{{" + (item["answer"] if int(item["answer"]) % 2 else "no") + "}}"
            verdict = judging.judged(judge, item["answer"], text)
            rows.append({{"id": item["id"], "prediction": text, "answer": item["answer"], **verdict}})
        accuracy = 100 * sum(row["value"] for row in rows) / len(rows)
        facts = {{"model": model["name"], "set": given["name"], "truncated": 0, "accuracy": accuracy}}
        results.append({{**facts, "items": rows}})
spent = [{{"model": row["model"], "set": row["set"], "seconds": len(row["items"]) / 8}} for row in results]
(pathlib.Path(job["out"]) / "generation.json").write_text(json.dumps(spent))
(pathlib.Path(job["out"]) / "results.json").write_text(json.dumps({{"results": results, "versions": {{}}}}))
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    python = tmp_path / "engine" / "bin" / "python"
    write_atomic(python, STAND_IN.format(python=sys.executable))
    python.chmod(0o755)
    engine = SimpleNamespace(
        folder=python.parent.parent, python=python, bin=python.parent, readable=(), identity="e", env={}, packages={}
    )
    monkeypatch.setattr(RunTools, "engine", lambda self, name: engine)
    monkeypatch.setattr(WarmWorkers, "socket", lambda workers, engine: "")
    base = tmp_path / "base"
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        write_atomic(base / name, name)
    return tmp_path


def bench(
    home: Path, name: str, also: Sequence[PlacedBenchmark] = (), benchmark_limit: int | None = 12, **settings: Any
) -> RunTools:
    """A run that was prepared; its base model is `base`."""
    place = Home(home)
    folder, run = wordproblems(place), place.run(name)
    spec = RunSpec.model_validate(
        {"benchmark": "wordproblems", "base_model": "tiny", "benchmark_limit": benchmark_limit}
    )
    prepared(run, spec, folder, home / "base", also=also)
    return RunTools(run, Settings.model_validate({"FT_FILE_PATH": home, "TUNELOOP_UNSANDBOXED": "always", **settings}))


Status = TypeVar("Status", bound=JobStatus)


def over(status: Callable[[], Status]) -> Status:
    """The status once it is no longer running."""
    deadline = time.monotonic() + 60
    while (found := status()).state == "running" and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def exit_code(status: Callable[[], JobStatus]) -> int | None:
    """Of the job, once it is no longer running."""
    end = over(status).exit
    return end.code if end else None


def evaluated(b: RunTools) -> tuple[str | None, JobReport]:
    """(job, last status) of the base model's evaluation."""
    job = start_evaluation(b, 0)
    return job, over(lambda: evaluation_status(b, 0))


def jobs(b: RunTools) -> list[str]:
    return sorted(p.name for p in (b.run.baseline / "jobs").glob("evaluate.*"))


def test_the_second_run_launches_nothing_and_says_so(home: Path) -> None:
    first = bench(home, "first")
    with pytest.raises(RecipeError, match="never launched"):
        validation_scores(first, 0)
    assert evaluated(first)[0] == "evaluate"
    (score,) = validation_scores(first, 0)
    assert (score.n, jobs(first)) == (12, ["evaluate.1"])
    second = bench(home, "second")
    job, status = evaluated(second)
    assert (job, status.state, status.exit, status.done, status.total) == (None, "over", None, 12, 12)
    assert "12 answers from the cache" in status.note
    assert jobs(second) == []
    shutil.rmtree(home / "cache")  # what was decided for a run stands
    assert start_evaluation(second, 0) is None
    assert validation_scores(second, 0) == [score]


def test_launching_again_neither_looks_nor_launches_again(home: Path) -> None:
    first, second = bench(home, "first"), bench(home, "second")
    evaluated(first)
    evaluated(second)
    validation_scores(first, 0)
    assert start_evaluation(second, 0) is None, "its own job is over, and nothing is left to do"
    assert jobs(second) == ["evaluate.1"]
    assert validation_scores(second, 0) == validation_scores(first, 0)


def test_further_benchmarks_are_measured_in_the_same_job(home: Path) -> None:
    first = bench(home, "first")
    other = first.setup.benchmark.model_copy(update={"name": "other", "answer": "number"})
    placed = PlacedBenchmark(benchmark=other, root=first.setup.benchmark_root, fingerprint="-")
    b = bench(home, "several", also=[placed])
    evaluated(b)
    one, two = validation_scores(b, 0)
    assert (one.benchmark, two.benchmark, jobs(b)) == ("wordproblems", "other", ["evaluate.1"])
    assert (one.n, two.n) == (12, 12)
    start_sealed(b, None)
    assert exit_code(partial(sealed_status, b)) == 0
    assert [score.benchmark for score in sealed_scores(b, None)[0]] == ["wordproblems", "other"]


def test_other_weights_are_measured(home: Path) -> None:
    first = bench(home, "first")
    evaluated(first)
    validation_scores(first, 0)
    (home / "base" / "model.safetensors").write_text("other weights")
    second = bench(home, "second")
    assert evaluated(second)[0] == "evaluate"
    assert start_evaluation(first, 0) == "evaluate"
    assert over(lambda: evaluation_status(first, 0)).state == "over"
    assert jobs(first) == ["evaluate.1", "evaluate.2"]


def test_switched_off_every_run_measures(home: Path) -> None:
    for name in ("first", "second"):
        b = bench(home, name, FT_DOCKER_ENABLE_CACHE="False")
        assert evaluated(b)[0] == "evaluate"
        validation_scores(b, 0)
    assert not (home / "cache").exists()


@pytest.mark.parametrize("content", ["{", "{}", '{"asked": [{"model": "base"}]}'])
def test_a_broken_plan_is_made_again(content: str, home: Path) -> None:
    first, second = bench(home, "first"), bench(home, "second")
    evaluated(first)
    validation_scores(first, 0)
    evaluated(second)
    (second.run.baseline / "evaluation.json").write_text(content)
    assert evaluation_status(second, 0).state == "absent"
    assert evaluated(second)[0] is None
    assert validation_scores(second, 0) == validation_scores(first, 0)


def test_plan_with_changed_answers_is_refused(home: Path) -> None:
    first, second = bench(home, "first"), bench(home, "second")
    evaluated(first)
    score = validation_scores(first, 0)
    evaluated(second)
    file = second.run.baseline / "evaluation.json"
    plan = json.loads(file.read_text())
    plan["asked"][0]["known"]["items"][0]["value"] = 1 - plan["asked"][0]["known"]["items"][0]["value"]
    file.write_text(json.dumps(plan))
    with pytest.raises(InfrastructureError, match="the engine's verdict differs from ours in value"):
        validation_scores(second, 0)
    assert evaluated(second)[0] is None
    assert validation_scores(second, 0) == score


def test_the_sealed_test_is_measured_each_time(home: Path) -> None:
    for name in ("first", "second"):
        b = bench(home, name)
        start_sealed(b, None)
        assert exit_code(partial(sealed_status, b)) == 0
        (base,), best = sealed_scores(b, None)
        assert (base.split, best) == ("test", [])
        assert sorted(p.name for p in (b.run.final / "jobs").glob("evaluate.*")) == ["evaluate.1"]
    assert not (home / "cache" / "evaluations").exists()


def test_scores_say_what_they_were_measured_with(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = bench(home, "first")
    now = measuring_conditions(first)
    evaluated(first)
    (score,) = validation_scores(first, 0)
    assert score.measured_with == now
    second = bench(home, "second")
    evaluated(second)
    assert validation_scores(second, 0) == [score], "an answer from the cache was measured in the same way"
    monkeypatch.setattr(first.engine("opencompass"), "identity", "another engine")
    assert measuring_conditions(first) != now


def probe_of(b: RunTools) -> dict[int, float]:
    start_probe(b)
    assert exit_code(partial(probe_status, b)) == 0
    return probe_seconds(b)


def test_probe_measures_first_100_items(home: Path) -> None:
    first = bench(home, "first", benchmark_limit=None)
    other = first.setup.benchmark.model_copy(update={"name": "other"})
    b = bench(
        home, "several", [PlacedBenchmark(benchmark=other, root=first.setup.benchmark_root, fingerprint="-")], None
    )
    assert probe_of(b) == {0: 0.125, 1: 0.125}
    folder = b.benchmark
    asked = json.loads((probe_place(b) / "jobs" / "evaluate.1" / "command.json").read_text())
    job = json.loads(Path(asked["argv"][2]).read_text())
    ids = [json.loads(line)["id"] for line in Path(job["sets"][0]["items"]).read_text().splitlines()]
    assert sorted(ids) == sorted(item.id for item in select_validation(folder, 100).every)
    assert [row["name"] for row in job["models"]] == ["base"]


def test_probe_does_not_ask_the_cache_but_fills_it(home: Path) -> None:
    """The cache knows answers, not what they took; a run of a hundred items finds them there."""
    for name in ("first", "second"):
        b = bench(home, name, benchmark_limit=None)
        assert probe_of(b) == {0: 0.125}
        assert [job.name for job in (probe_place(b) / "jobs").glob("evaluate.*")] == ["evaluate.1"]
    third = bench(home, "third", benchmark_limit=100)
    assert evaluated(third)[0] is None, "nothing is left to do"
    assert validation_scores(third, 0)[0].n == 100


def test_probe_that_is_there_is_not_made_again(home: Path) -> None:
    b = bench(home, "first", benchmark_limit=None)
    assert probe_of(b) == probe_of(b)
    assert [job.name for job in (probe_place(b) / "jobs").glob("evaluate.*")] == ["evaluate.1"]


@pytest.mark.parametrize("text", ["{", "[]", '[{"set": "wordproblems"}]'])
def test_probe_with_a_broken_file_of_times_is_one_line(text: str, home: Path) -> None:
    b = bench(home, "first", benchmark_limit=None)
    probe_of(b)
    next(probe_place(b).rglob("generation.json")).write_text(text)
    with pytest.raises(InfrastructureError, match="generation"):
        probe_seconds(b)


def test_precisions_count_items_of_either_split(home: Path) -> None:
    b = bench(home, "first", benchmark_limit=120)
    found = {"validation": precision_of(validation_sets(b, b.validation_limit)[0]), "test": sealed_precision(b)}
    assert (found["validation"].items, found["validation"].units) == (120, 120)
    assert (found["test"].items, found["test"].units) == (500, 500), "the sealed test is never cut"


def test_vllm_asked_for_in_vain_is_one_line(home: Path) -> None:
    with pytest.raises(InvalidRequestError, match="has no vllm"):
        start_evaluation(bench(home, "first", TUNELOOP_EVAL_BACKEND="vllm"), 0)
