"""`tuneloop status`, `report` and `stop` on runs in any state: the open experiment, the newest result, jobs left alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from tests.cli.conftest import call, make_run
from tests.waiting import until
from tuneloop.core.event_log import append
from tuneloop.core.events import JobProgress, NodeFinished, NodeInterrupted, NodeStarted
from tuneloop.core.experiment import Critique, Experiment, Feedback, Hypothesis
from tuneloop.core.files import write_json
from tuneloop.core.job import Command
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.score import Score
from tuneloop.graph.lifecycle.lock import hold_lock
from tuneloop.sandboxes.jobs import launch
from tuneloop.sandboxes.process import ProcessSandbox

IDEA = Hypothesis(statement="More rows help.", reason="r", disproof="d", aspect="first")


def finished_experiment(run: RunFolder, number: int, seconds: float = 60.0) -> None:
    score = Score(benchmark="b", split="validation", metric="m", value=50, low=40, high=60, n=100, parsed=100)
    feedback = Feedback(promoted=True, critique=Critique(explanation="e", lesson="l"))
    done = Experiment(number=number, hypothesis=IDEA, score=score, feedback=feedback, seconds=seconds)
    write_json(run.experiment(number).result, done.model_dump(mode="json"))


def test_the_open_experiment_and_its_progress_are_shown(home: Home) -> None:
    run = make_run(home, "r1")
    finished_experiment(run, 1)
    write_json(run.experiment(2).hypothesis, IDEA.model_dump(mode="json"))
    append(run.events, NodeStarted(experiment=2, node="train"))
    append(run.events, JobProgress(experiment=2, job="train", done=40, total=100, note="loss 1.2"))
    text = call("status").stdout
    assert "at train" in text and "40/100 steps" in text and "loss 1.2" in text
    assert text.count("More rows help.") == 2
    (told,) = json.loads(call("status", "--json").stdout)["open"]
    assert (told["number"], told["node"], told["waits"], told["job"]["done"]) == (2, "train", False, 40)


def test_all_open_experiments_are_shown(home: Home) -> None:
    """Of five, the first is over, two are at work, one waits for its turn, one was no experiment."""
    run = make_run(home, "r1")
    finished_experiment(run, 1)
    for number in (2, 3, 4):
        idea = IDEA.model_copy(update={"statement": f"Idea {number}."})
        write_json(run.experiment(number).hypothesis, idea.model_dump(mode="json"))
    run.experiment(5).root.mkdir()
    for event in (
        NodeStarted(experiment=1, node="critique"),
        NodeStarted(experiment=4, node="research"),  # of the fifth
        NodeFinished(experiment=4, node="research", seconds=1, detail="then finish"),
        NodeStarted(experiment=2, node="train"),
        NodeStarted(experiment=3, node="evaluate"),
        JobProgress(experiment=3, job="evaluate", done=1, total=8),
        NodeStarted(experiment=4, node="smoke_run"),
        JobProgress(experiment=2, job="train", done=40, total=100),
        NodeFinished(experiment=3, node="evaluate", seconds=1),
    ):
        append(run.events, event)
    with hold_lock(run.lock):
        text = call("status").stdout
    rows = [line.split("  ") for line in text.splitlines() if "Idea " in line]
    assert "running with 3 open experiments" in text
    assert [row[0] for row in rows] == ["2", "3", "4"]
    assert "at train for" in text and "waits after evaluate " in text and "at smoke_run for" in text
    assert "now 2: train: 40/100 steps" in text and "1/8" not in text
    told = json.loads(call("status", "--json").stdout)["open"]
    assert [(one["number"], one["node"], one["waits"]) for one in told] == [
        (2, "train", False),
        (3, "evaluate", True),
        (4, "smoke_run", False),
    ]


def test_an_experiment_that_is_thought_of_is_open(home: Home) -> None:
    run = make_run(home, "r1")
    run.experiment(1).root.mkdir(parents=True)
    append(run.events, NodeStarted(node="research"))
    (told,) = json.loads(call("status", "--json").stdout)["open"]
    assert (told["number"], told["node"], told["hypothesis"]) == (1, "research", "")


def test_an_interrupted_node_is_where_its_experiment_stands(home: Home) -> None:
    run = make_run(home, "r1")
    write_json(run.experiment(1).hypothesis, IDEA.model_dump(mode="json"))
    append(run.events, NodeStarted(experiment=1, node="train"))
    append(run.events, NodeInterrupted(experiment=1, node="train", seconds=3))
    assert "at train " in call("status").stdout


def test_between_experiments_nothing_is_open(home: Home) -> None:
    run = make_run(home, "r1")
    append(run.events, NodeStarted(experiment=1, node="critique"))
    finished_experiment(run, 1)
    assert json.loads(call("status", "--json").stdout)["open"] == []


def test_a_report_falls_back_to_the_newest_that_is_finished(home: Home) -> None:
    old = make_run(home, "old")
    old.report.write_text("# the old one\n")
    write_json(old.report_json, {"run_id": "old"})
    make_run(home, "new")
    result = call("report")
    assert result.stdout.strip() == "# the old one"
    assert "new" in result.stderr and "old" in result.stderr
    assert call("report", "new").exit_code == 2, "who names a run means that one"


@pytest.fixture
def orphan(home: Home) -> Iterator[RunFolder]:
    """A run whose process is gone and whose training goes on."""
    run = make_run(home, "r1")
    place = run.experiment(1)
    place.work.mkdir(parents=True)
    python = (sys.executable, "-I", "-S", "-c")
    work = str(place.work)
    command = Command(
        argv=(*python, "import time; time.sleep(60)"), cwd=work, write=(work,), read=(sys.prefix, sys.base_prefix)
    )
    sandbox = ProcessSandbox()
    folder = launch(sandbox, place.jobs, "train", command)
    yield run
    sandbox.stop(folder, 0)
    until(lambda: sandbox.poll(folder).state != "running")


def test_stop_ends_jobs_that_outlived_their_run(orphan: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuneloop.tools.runs.messages.START_SECONDS", 0.0)
    result = call("stop")
    assert result.exit_code == 0, result.output
    assert "train.1" in result.output and "tuneloop resume r1" in result.output
    assert call("stop").exit_code == 2
