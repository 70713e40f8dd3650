"""A run without a benchmark: one training, delivered, of which nothing is claimed; a kill in the middle costs nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.conftest import COMMAND, linked_home, tuneloop
from tests.prepared import prepared
from tuneloop.cli.main import cli
from tuneloop.core.directive import Extend
from tuneloop.core.errors import ToolError
from tuneloop.core.event_log import iter_events
from tuneloop.core.events import RunFinished
from tuneloop.core.experiment import Critique, Experiment, Hypothesis, Training
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import is_locked
from tuneloop.core.run_spec import NO_BENCHMARK, RunSpec
from tuneloop.core.settings import Settings, load_settings
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle.rebuild import rebuild
from tuneloop.graph.nodes import critique as closing
from tuneloop.graph.nodes.critique import close_experiment
from tuneloop.graph.nodes.evaluate import evaluate
from tuneloop.graph.nodes.extra_seeds import best_training
from tuneloop.graph.state import NodeFailure, State
from tuneloop.graph.steering.apply import needed
from tuneloop.graph.steering.replies import best, why
from tuneloop.graph.steering.validation import objection
from tuneloop.mcp_servers.evaluation import EvaluationTools
from tuneloop.tools.benchmark_items.of_run import without_items
from tuneloop.tools.engines import Engine
from tuneloop.tools.runs.evidence import record_evidence
from tuneloop.tools.runs.messages import say
from tuneloop.tools.runs.status import run_status, status_facts
from tuneloop.tools.training.grpo_recipe import refusal

IDEA = Hypothesis(statement="s", reason="r", disproof="d", aspect="first")
TRAINED = Training(steps=9, seconds=9, rows=9, first_loss=2, last_loss=1, tail_slope=0, method="full")


@pytest.fixture
def settings() -> Settings:
    return load_settings()


@pytest.fixture
def ctx(settings: Settings, tmp_path: Path) -> Context:
    """A run whose first experiment is trained and not closed."""
    spec = RunSpec(benchmark=NO_BENCHMARK, base_model="tiny", loop_n=1)
    run = prepared(settings.home.run("r"), spec, without_items(settings.home), tmp_path)
    write_json(run.baseline / "spent.json", {"seconds": 1.0})
    record_evidence(run, run.baseline)
    folder = run.experiment(1)
    write_json(folder.hypothesis, IDEA.model_dump(mode="json"))
    write_json(folder.training, TRAINED.model_dump(mode="json"))
    return Context(run, settings, State(run_id="r", experiment=1))


def closed(ctx: Context) -> Experiment:
    return Experiment.model_validate(read_json(ctx.folder.result))


def test_nothing_is_evaluated_and_no_critic_is_asked(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "run_agent", None)
    assert evaluate(ctx) == {"stage": "critique"}
    close_experiment(ctx)
    done = closed(ctx)
    assert (done.outcome, done.score, done.failure, done.feedback.promoted) == ("not evaluated", None, None, False)
    assert "Nothing was evaluated" in done.feedback.critique.explanation
    chosen = best_training(ctx).chosen
    assert chosen is not None and chosen.experiment == 1


@pytest.mark.parametrize(("leads", "outcome"), [("write_config", "not evaluated"), ("critique", "failed")])
def test_a_repaired_failure_is_none(ctx: Context, monkeypatch: pytest.MonkeyPatch, leads: str, outcome: str) -> None:
    monkeypatch.setattr(closing, "run_agent", lambda *_: Critique(explanation="it broke", lesson=""))
    failure = NodeFailure(node="smoke_run", culprit="config", text="loss is NaN", leads=leads)
    close_experiment(Context(ctx.run, ctx.settings, ctx.state.model_copy(update={"failure": failure})))
    assert closed(ctx).outcome == outcome
    assert (best_training(ctx).chosen is None) == (outcome == "failed")


@pytest.mark.parametrize(
    ("node", "leads", "failed"),
    [("evaluate", "critique", True), ("evaluate", "write_config", False), ("train", "critique", False)],
)
def test_a_score_that_could_not_be_measured_again_is_none(ctx: Context, node: str, leads: str, failed: bool) -> None:
    write_json(ctx.folder.scores, {})
    failure = NodeFailure(node=node, culprit="environment", text="the run's time was over", leads=leads)
    again = Context(ctx.run, ctx.settings, ctx.state.model_copy(update={"failure": failure}))
    assert (closing.final_failure(again) is not None) == failed


def test_the_one_model_cannot_be_deleted_before_it_is_delivered(ctx: Context) -> None:
    close_experiment(ctx)
    assert needed(ctx, 1) == "the run delivers experiment 1's model, and is not over"
    write_json(ctx.run.report_json, {})
    assert needed(ctx, 1) == ""


def test_state_is_rebuilt_without_a_baseline(ctx: Context) -> None:
    assert rebuild(ctx.run, ctx.settings).stage == "evaluate"
    close_experiment(ctx)
    assert rebuild(ctx.run, ctx.settings).stage == "prepare", "which finds its work done, and leads to the end"
    ctx.run.final.mkdir()
    assert rebuild(ctx.run, ctx.settings).stage == "finish"


def test_questions_are_answered_in_plain_words(ctx: Context) -> None:
    close_experiment(ctx)
    assert "nothing is evaluated" in best(ctx)
    assert "nothing is evaluated" in why(ctx, 1)
    assert why(ctx, None) == "No experiment has failed."
    status = run_status(ctx.run)
    assert (status.evaluated, status.best, status_facts(status)["evaluated"]) == (False, None, False)
    shown = CliRunner().invoke(cli, ["status", "r"]).stdout
    assert shown.startswith(("r: paused", "r: new"))
    assert "not evaluated" in shown


def test_what_compares_is_refused_in_one_line(ctx: Context) -> None:
    assert "could not be compared" in objection(ctx, Extend(experiments=1), [])
    assert "no limit of time" in objection(ctx, Extend(seconds=9), [])
    assert "this run has no benchmark" in refusal(ctx.run_tools)
    tools = EvaluationTools(ctx.scope)
    for call in (lambda: tools.evaluate(1), lambda: tools.explain_failures(1), lambda: tools.compare(1, 0)):
        with pytest.raises(ToolError, match="this run has no benchmark"):
            call()
    close_experiment(ctx)
    forked = CliRunner().invoke(cli, ["fork", "r", "--at", "1"])
    assert forked.exit_code == 2
    assert "evaluates nothing" in forked.stderr


def test_dry_run_promises_no_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_BENCHMARK_DATASETS", "[]")
    words = ["run", "--base-model", "tiny", "--dataset", str(data(tmp_path)), "--dry-run"]
    plan = CliRunner().invoke(cli, words)
    assert plan.exit_code == 0, plan.output
    assert "nothing is evaluated, and nothing will be proved" in plan.stdout
    assert "WARNING" not in plan.stderr
    assert "opencompass" not in plan.stdout
    monkeypatch.setenv("FT_TARGET_BENCHMARK", "gsm8k")
    refused = CliRunner().invoke(cli, words)
    assert refused.exit_code == 2
    assert "right is one or the other" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def data(place: Path) -> Path:
    """Sums, asked in two fields."""
    file = place / "sums.jsonl"
    rows = (
        {"instruction": "Add the numbers.", "input": f"{i} and 7", "output": f"{i} + 7 = {i + 7}"} for i in range(200)
    )
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.slow
def test_killed_run_goes_on_and_delivers_what_it_trained(llamafactory: Engine, tiny: Path, tmp_path: Path) -> None:
    home = linked_home(tmp_path / "home")
    run, folder = RunFolder(home / "runs" / "u"), RunFolder(home / "runs" / "u").experiment(1)
    asked = ("--base-model", "tiny", "--dataset", str(data(tmp_path)), "--run-id", "u", "--step-n", "1")
    tuneloop(home, "run", *asked, FT_BENCHMARK_DATASETS="[]", FT_KEEP_MODELS="best")
    say(run, "use max_steps=40")
    with (tmp_path / "said.txt").open("ab") as said:
        env = {**os.environ, "FT_FILE_PATH": str(home), "FT_KEEP_MODELS": "best"}
        first = subprocess.Popen([*COMMAND, "resume", "u"], env=env, cwd=tmp_path, stdout=said, stderr=said)
    while not (is_locked(folder.jobs / "train.1" / "lock") and (folder.model / "pulse.json").is_file()):
        assert first.poll() is None, (tmp_path / "said.txt").read_text()[-2000:]
        time.sleep(0.05)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()

    printed = tuneloop(home, "resume", "u", "--json", FT_KEEP_MODELS="best")
    assert [job.name for job in sorted(folder.jobs.glob("train.*"))] == ["train.1"], "the training went on alone"
    report = read_json(run.report_json)
    assert (report["evaluated"], report["best"]["delivered"], report["claim"]) == (False, True, None)
    assert [e["outcome"] for e in report["experiments"]] == ["not evaluated"]
    assert "opencompass" not in report["versions"]
    (end,) = [event for event in iter_events(run.events) if isinstance(event, RunFinished)]
    assert end.says == report["says"]
    assert [one["says"] for one in map(json.loads, printed.splitlines()) if one["kind"] == "run_finished"] == [end.says]
    assert (end.best, end.delivered, end.best_test) == (None, True, None)
    assert "nothing is proved" in (run.best / "README.md").read_text()
    assert {"model.safetensors", "tokenizer.json"} <= {file.name for file in run.best.iterdir()}
    rows = read_json(folder.data / "data.json")
    assert {"instruction": "Add the numbers.\n5 and 7", "input": "", "output": "5 + 7 = 12"} in rows
    assert not (home / "benchmarks" / "reads.jsonl").exists(), "no sealed test was opened"
    assert not (run.baseline / "scores.json").exists()

    before = run.report_json.read_bytes()
    run.report_json.unlink()  # as if the machine had stopped before it was written
    tuneloop(home, "resume", "u")
    assert {**json.loads(before), "budget": 0} == {**read_json(run.report_json), "budget": 0}
