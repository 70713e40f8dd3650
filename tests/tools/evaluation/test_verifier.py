"""A benchmark whose replies a program decides about: `answer: verifier:FILE`, from the folder to the score."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.prepared import prepared
from tests.tools.evaluation.test_code_execution import evaluated
from tests.tools.evaluation.test_code_execution import home as home  # noqa: PLC0414 - a fixture
from tests.tools.evaluation.test_run_evaluation import over
from tuneloop.core.catalog import Verified
from tuneloop.core.errors import InfrastructureError, InvalidRequestError, RecipeError
from tuneloop.core.files import write_atomic, write_json
from tuneloop.core.layout import Home
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.jobs import read_command
from tuneloop.tools.benchmark_items.folder import select_validation
from tuneloop.tools.benchmark_items.resolve import resolve_benchmark
from tuneloop.tools.evaluation.run_evaluation import evaluation_status, start_evaluation, validation_scores
from tuneloop.tools.jobs.run_tools import RunTools

YAML = "name: near\ndescription: Guess the number.\nanswer: verifier:near.py\nprompt: 'Guess {what}.'\nseconds: 1\n"
NEAR = """
def score(answer, item):
    return 1 / (1 + abs(int(answer) - item["number"]))
"""
REPLIES = ["7", "It is <answer> 8 </answer>, I think.", "", "seven"]


def write(folder: Path, verifier: str = NEAR, yaml: str = YAML) -> Path:
    write_atomic(folder / "benchmark.yaml", yaml)
    write_atomic(folder / "near.py", verifier)
    for split in ("validation", "test"):
        rows = [{"what": f"{split} {i}", "number": 7, "answer": 7} for i in range(8)]
        write_atomic(folder / f"{split}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return folder


def bench(home: Path, name: str, verifier: str = NEAR, **spec: Any) -> RunTools:
    write_json(home / "replies.json", REPLIES)
    place = Home(home)
    folder, run = resolve_benchmark(str(write(home / "own", verifier)), place, None), place.run(name)
    prepared(run, RunSpec.model_validate({"benchmark": "x", "base_model": "m", **spec}), folder, home / "base")
    return RunTools(run, Settings.model_validate({"FT_FILE_PATH": home, "TUNELOOP_UNSANDBOXED": "always"}))


def test_replies_are_worth_what_the_verifier_says(home: Path) -> None:
    b = bench(home, "r")
    assert isinstance(select_validation(b.benchmark).every[0].calls, Verified)
    assert evaluated(b) == ["evaluate", "verify"]
    (score,) = validation_scores(b, 0)
    assert [item.value for item in score.items[:4]] == [1, 0.5, 0, 0]
    assert [item.parsed for item in score.items[:4]] == ["7", "8", None, "seven"]
    assert score.items[3].extra == {"raised": "ValueError"}
    assert (score.value, score.parsed) == (37.5, 75)
    command = read_command(b.run.baseline / "jobs" / "verify.1")
    assert (command.generated, command.network, command.worker) == (True, False, "")
    again = bench(home, "again")
    assert (start_evaluation(again, 0), validation_scores(again, 0)) == (None, [score]), "by the cache"
    assert start_evaluation(bench(home, "other", NEAR + "\n# another one\n"), 0) == "evaluate"


@pytest.mark.parametrize(
    ("verifier", "said"),
    [
        ("def score(answer, item): return 0", "to the right answer of item"),
        ("import nothing_of_that_name\ndef score(answer, item): return 1", "the verifier cannot be loaded"),
    ],
)
def test_broken_verifier_fails_before_anything_is_believed(verifier: str, said: str, home: Path) -> None:
    b = bench(home, "r", verifier)
    evaluated(b)
    with pytest.raises(RecipeError, match=said):
        validation_scores(b, 0)


def test_a_value_beyond_one_is_refused(home: Path) -> None:
    b = bench(home, "r", "def score(answer, item): return 2")
    evaluated(b)
    with pytest.raises(InfrastructureError, match=r"the verifier gives 2\.0; right is a number from 0 to 1"):
        validation_scores(b, 0)
    assert over(lambda: evaluation_status(b, 0)).state == "over"


@pytest.mark.parametrize(
    ("verifier", "yaml", "said"),
    [
        ("def verify(answer): return 1", YAML, "near.py has no such function"),
        ("def score(answer): return 1", YAML, "near.py has no such function"),
        ("def score(answer, item) return 1", YAML, "near.py cannot be read"),
        (NEAR, YAML.replace("near.py", "../near.py"), "a Python file beside benchmark.yaml"),
        (NEAR, YAML.replace("near.py", "far.py"), "far.py cannot be read"),
        (NEAR, YAML + "verifier: 'def score(a, b): return 1'\n", "key 'verifier' is unknown"),
    ],
)
def test_what_is_wrong_with_a_verifier_is_one_line(verifier: str, yaml: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        resolve_benchmark(str(write(tmp_path / "own", verifier, yaml)), Home(tmp_path / "home"), None)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
