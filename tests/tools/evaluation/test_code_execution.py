"""Generate, run, compare: three places, and only the last one knows what is right."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.prepared import prepared
from tests.tools.evaluation.test_run_evaluation import exit_code, over
from tuneloop.core.catalog import Calls
from tuneloop.core.errors import InfrastructureError, InvalidRequestError, RecipeError
from tuneloop.core.files import write_atomic, write_json
from tuneloop.core.layout import Home
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.bubblewrap import probe_bubblewrap
from tuneloop.sandboxes.jobs import read_command
from tuneloop.tools.benchmark_items.folder import sealed_items, select_validation
from tuneloop.tools.benchmark_items.resolve import resolve_benchmark
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.run_evaluation import (
    evaluation_folder,
    evaluation_status,
    sealed_scores,
    sealed_status,
    start_evaluation,
    start_sealed,
    validation_scores,
)
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.jobs.warm_workers import WarmWorkers
from tuneloop.tools.runs.signature import write_setup

YAML = "name: adding\ndescription: Write add.\nanswer: code\nprompt: 'Write {what}.'\nseconds: 1\n"
# Stands for the engine's Python: the answers are those of a file; whatever else is run, is run.
STAND_IN = """\
#!{python}
import json, os, pathlib, sys
if sys.argv[1] in ("-S", "-B"):
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
job = json.loads(pathlib.Path(sys.argv[2]).read_text())
replies = json.loads(pathlib.Path({replies!r}).read_text())
given = job["sets"][0]
rows = [json.loads(line) for line in pathlib.Path(given["items"]).read_text().splitlines()]
assert all(row["answer"] == "" for row in rows), "nobody who generates knows what is right"
done = [dict(id=row["id"], prediction=replies[i % len(replies)]) for i, row in enumerate(rows)]
results = [dict(model=model["name"], set=given["name"], truncated=0, items=done) for model in job["models"]]
(pathlib.Path(job["out"]) / "results.json").write_text(json.dumps(dict(results=results, versions=dict())))
"""
RIGHT = "Sure:\n```python\ndef add(a, b):\n    return a + b\n```"
REPLIES = [RIGHT, "```python\ndef add(a, b):\n    return 0\n```", "I cannot.", "```python\nimport os\nos._exit(0)\n```"]
SHOWN = ["[3, 0]", "[0, 0]", None, None]
Answers = Sequence[list[int]]


def rows(split: str, answers: Answers) -> list[dict[str, Any]]:
    calls = {"entry": "add", "inputs": [[1, 2], [-3, 3]]}
    return [{"what": f"{split} {i}", "calls": calls, "answer": answers[i % len(answers)]} for i in range(8)]


def write(folder: Path, answers: Answers = ([3, 0],), **changes: Any) -> Path:
    write_atomic(folder / "benchmark.yaml", YAML)
    for split in ("validation", "test"):
        text = "".join(json.dumps({**row, **changes}) + "\n" for row in rows(split, answers))
        write_atomic(folder / f"{split}.jsonl", text)
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    python = tmp_path / "engine" / "bin" / "python"
    write_json(tmp_path / "replies.json", REPLIES)
    write_atomic(python, STAND_IN.format(python=sys.executable, replies=str(tmp_path / "replies.json")))
    python.chmod(0o755)
    readable = (str(tmp_path / "engine"), str(tmp_path / "replies.json"), sys.prefix, sys.base_prefix)
    engine = SimpleNamespace(
        folder=python.parent.parent,
        python=python,
        bin=python.parent,
        readable=readable,
        identity="e",
        env={},
        packages={},
    )
    monkeypatch.setattr(RunTools, "engine", lambda self, name: engine)
    monkeypatch.setattr(WarmWorkers, "socket", lambda workers, engine: "")
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        write_atomic(tmp_path / "base" / name, name)
    return tmp_path


def bench(home: Path, name: str, answers: Answers = ([3, 0],), unsandboxed: str = "always", **spec: Any) -> RunTools:
    """A run of that benchmark that was prepared."""
    place = Home(home)
    folder, run = resolve_benchmark(str(write(home / "own", answers)), place, None), place.run(name)
    asked = {"benchmark": "x", "base_model": "m", **spec}
    made = RunSpec.model_validate(asked)
    prepared(run, made, folder, home / "base")
    return RunTools(run, Settings.model_validate({"FT_FILE_PATH": home, "TUNELOOP_UNSANDBOXED": unsandboxed}))


def evaluated(b: RunTools) -> list[str | None]:
    """Both jobs, one after the other; their names."""
    names = []
    for _ in evaluation_folder(b, b.run.baseline).stages:
        names.append(start_evaluation(b, 0))
        assert over(lambda: evaluation_status(b, 0)).state == "over"
    return names


def test_a_users_items_are_read_and_kept(home: Path) -> None:
    b = bench(home, "r")
    first = select_validation(b.benchmark).every[0]
    assert isinstance(first.calls, Calls)
    assert (first.calls.entry, first.calls.inputs, first.answer) == ("add", [[1, 2], [-3, 3]], "[3, 0]")
    assert [item.calls == first.calls for item in sealed_items(b.benchmark)] == [True] * 8


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"calls": None}, "right is e.g."),
        ({"calls": {"entry": "add"}}, r"calls\.inputs: Field required"),
        ({"calls": {"entry": "a.b", "inputs": [[1]]}}, r"calls\.entry: String should match"),
        ({"calls": {"entry": "add", "inputs": [[1, 2]]}}, "1 inputs and 2 answers"),
        ({"calls": {"entry": "add", "inputs": [1, 2]}}, r"calls\.inputs\.0"),
        ({"answer": 3}, "answer is no list"),
        ({"answer": "3"}, "answer is no list"),
    ],
)
def test_what_is_wrong_with_an_item_is_one_line(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=rf"validation\.jsonl:1: .*{said}"):
        resolve_benchmark(str(write(tmp_path / "own", **changes)), Home(tmp_path / "home"), None)


def test_replies_are_run_apart_and_compared_outside(home: Path) -> None:
    b = bench(home, "r")
    assert evaluated(b) == ["evaluate", "execute"]
    (score,) = validation_scores(b, 0)
    assert (score.value, score.parsed, score.n) == (25, 50, 8)
    assert [item.parsed for item in score.items[:4]] == SHOWN
    assert [item.correct for item in score.items[:4]] == [True, False, False, False]
    asked = read_command(b.run.baseline / "jobs" / "evaluate.1"), read_command(b.run.baseline / "jobs" / "execute.1")
    generate, execute = asked
    assert (generate.generated, execute.generated, execute.network, execute.worker) == (False, True, False, "")
    work = b.run.baseline / "work"
    assert execute.write == (str(work / "execute"),)
    assert str(home / "base") not in execute.read
    for one in asked:
        inputs = next(Path(path) for path in one.read if path.endswith(".input"))
        assert not [p for p in inputs.iterdir() if "[3, 0]" in p.read_text()], "what is right is in no job"
    again = bench(home, "again")
    assert (start_evaluation(again, 0), validation_scores(again, 0)) == (None, [score]), "by the cache"


def test_other_values_to_be_given_are_another_question(home: Path) -> None:
    evaluated(bench(home, "r"))
    validation_scores(bench(home, "r"), 0)
    b = bench(home, "other")
    changed = b.setup.benchmark.model_copy(update={"seconds": 2.0})
    write_setup(b.run, b.setup.model_copy(update={"benchmark": changed}))
    assert start_evaluation(RunTools(b.run, b.settings), 0) == "evaluate"
    assert over(lambda: evaluation_status(b, 0)).state == "over"


def test_no_unprotected_run_without_permission(home: Path) -> None:
    b = bench(home, "r")
    write_setup(b.run, b.setup.model_copy(update={"sandbox": "process"}))
    never = RunTools(b.run, b.settings.model_copy(update={"unsandboxed": "never"}))
    with pytest.raises(InvalidRequestError, match=r"(?i)unsandboxed"):
        start_evaluation(never, 0)


def test_the_sealed_test_is_run_likewise(home: Path) -> None:
    b = bench(home, "r")
    for _ in evaluation_folder(b, b.run.baseline).stages:
        start_sealed(b, None)
        assert exit_code(partial(sealed_status, b)) == 0
    (base,), best = sealed_scores(b, None)
    assert (base.value, base.split, best) == (25, "test", [])


def test_in_bubblewrap_too(home: Path) -> None:
    if problem := probe_bubblewrap():
        pytest.skip(problem)
    b = bench(home, "r", sandbox="bubblewrap")
    assert evaluated(b) == ["evaluate", "execute"]
    assert [item.parsed for item in validation_scores(b, 0)[0].items[:4]] == SHOWN


Change = Callable[[list[dict[str, Any]]], Any]
LIES: dict[str, Change] = {
    "a foreign item": lambda found: found.append({"id": "x", "results": None}),
    "an item twice": lambda found: found.append(found[0]),
    "results of another shape": lambda found: found[0].update(results=[{"value": 3, "correct": True}]),
    "results that are a text": lambda found: found[0].update(results="right"),
    "no results": lambda found: found[0].pop("results"),
    "an id that is a list": lambda found: found[0].update(id=[1]),
    "an item that is no object": lambda found: found.append(1),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("lie", LIES)
def test_results_that_are_none_fail_the_recipe(lie: str, home: Path) -> None:
    b = bench(home, "r")
    evaluated(b)
    file = b.run.baseline / "work" / "execute" / "results.json"
    told = json.loads(file.read_text())
    LIES[lie](told["results"][0]["items"])
    file.write_text(json.dumps(told))
    with pytest.raises(RecipeError, match="no results that can be read"):
        validation_scores(b, 0)


def test_replies_that_are_none_are_not_run(home: Path) -> None:
    b = bench(home, "r")
    start_evaluation(b, 0)
    assert over(lambda: evaluation_status(b, 0)).state == "over"
    file = b.run.baseline / "work" / "evaluate" / "results.json"
    told = json.loads(file.read_text())
    told["results"][0]["items"][0]["prediction"] = 1
    file.write_text(json.dumps(told))
    with pytest.raises(InfrastructureError, match="is no text"):
        start_evaluation(b, 0)
    assert not list((b.run.baseline / "jobs").glob("execute.*"))


# Right where nothing of what it looks for is to be seen.
SPY = """\
```python
def add(a, b):
    for place in {places}:
        try:
            open(place).close()
            return "seen"
        except OSError:
            pass
    return a + b
```"""
PARROT = Path(__file__).parent.parent.parent / "engines" / "opencompass" / "make_model_of_one_reply.py"


def test_the_real_engine_generates_and_its_replies_are_run_apart(warm_home: Path, opencompass: Engine) -> None:
    """A model that replies with right code to everything: right where the sum is, wrong where something else is asked."""
    if problem := probe_bubblewrap():
        pytest.skip(problem)
    b = bench(warm_home, "real", ([3, 0], [3, 1]), sandbox="bubblewrap")
    model, own, evaluate = b.setup.model_root, b.benchmark.root, b.run.baseline / "work" / "evaluate"
    sealed = next(path for path in own.rglob("*.jsonl") if "sealed" in path.parts)
    hidden = [model / "model.safetensors", sealed, own / "validation.jsonl", evaluate / "results.json", b.run.setup]
    reply = warm_home / "reply.txt"
    reply.write_text(SPY.format(places=list(map(str, hidden))))
    argv = [opencompass.python, PARROT, model, reply]
    made = subprocess.run(list(map(str, argv)), env=opencompass.env, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    try:
        assert evaluated(b) == ["evaluate", "execute"]
    finally:
        b.workers.stop()
    assert all(path.is_file() for path in hidden)
    (score,) = validation_scores(b, 0)
    asked = {item.id: item for item in select_validation(b.benchmark).every}
    assert {item.parsed for item in score.items} == {"[3, 0]"}
    assert [item.correct for item in score.items] == [asked[item.id].answer == "[3, 0]" for item in score.items]
    assert score.value == 50
    generate, execute = (
        read_command(b.run.baseline / "jobs" / f"{name}.1") for name in evaluation_folder(b, b.run.baseline).stages
    )
    assert not {*generate.write} & {*execute.write, *execute.read}
    assert not [p for one in (generate, execute) for p in one.read if sealed.is_relative_to(p)]
