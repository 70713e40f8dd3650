"""An SFT, then a GRPO on it, through the graph: the orchestrator is killed while GRPO trains, and the run goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import SMALL, linked_home, tuneloop
from tests.graph import grpo_planner
from tuneloop.core.experiment import Experiment, Training
from tuneloop.core.files import digest_file, read_json, read_lines, read_model
from tuneloop.core.layout import ExperimentFolder, RunFolder
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.jobs import read_command
from tuneloop.tools.engines import Engine, ensure_engine
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.runs.journal import experiment_score
from tuneloop.tools.training import methods

COMMAND = (sys.executable, str(Path(grpo_planner.__file__)))
ENV = {**SMALL, "FT_KEEP_MODELS": "all"}
SUMS = "rg:chain_sum?min_terms=2&max_terms=2&max_digits=1"


def killed_once(home: Path, benchmark: str, **env: str) -> RunFolder:
    """The finished run; its orchestrator was killed once, when GRPO had left its first checkpoint."""
    run = RunFolder(home / "runs" / "grpo")
    words = ("run", "--benchmark", benchmark, "--base-model", "tiny", "--loop-n", "2", "--run-id", "grpo")
    given = {**ENV, **env}
    log = home.parent / "log.txt"
    with (
        log.open("w") as out,
        subprocess.Popen(
            [*COMMAND, *words],
            env={**os.environ, **given, "FT_FILE_PATH": str(home)},
            cwd=home.parent,
            stdout=out,
            stderr=out,
        ) as p,
    ):
        proof = run.experiment(2).model / "checkpoint-3" / "proof.json"
        while p.poll() is None and not proof.is_file():
            time.sleep(0.01)
        assert p.poll() is None, log.read_text()[-3000:]
        p.kill()
    tuneloop(home, "resume", "grpo", command=COMMAND, **given)
    return run


@pytest.fixture(scope="module")
def killed_run(
    tmp_path_factory: pytest.TempPathFactory, llamafactory: Engine, opencompass: Engine, trl: Engine, tiny: Path
) -> RunFolder:
    """A run on the embedded benchmark."""
    return killed_once(linked_home(tmp_path_factory.mktemp("grpo") / "home"), "wordproblems")


@pytest.fixture(scope="module")
def verified_run(
    tmp_path_factory: pytest.TempPathFactory,
    llamafactory: Engine,
    opencompass: Engine,
    trl: Engine,
    tiny: Path,
    shared_settings: Settings,
) -> RunFolder:
    """A run on a task of reasoning_gym, whose replies a verifier scores."""
    ensure_engine("reasoning_gym", shared_settings)
    return killed_once(linked_home(tmp_path_factory.mktemp("verified") / "home"), SUMS, FT_BENCHMARK_LIMIT="16")


def tools(run: RunFolder) -> RunTools:
    return RunTools(run, Settings(FT_FILE_PATH=run.root.parent.parent))


def test_it_went_on_with_the_training_that_ran(killed_run: RunFolder) -> None:
    folder = killed_run.experiment(2)
    assert [path.name for path in folder.jobs.glob("train.*")] == ["train.1"]
    done = read_model(folder.training, Training)
    assert (done.steps, done.method, done.stopped) == (9, "full", None)
    assert done.forecast and done.forecast.steps == 9 and done.forecast.seconds > 0
    assert not list(folder.model.glob("checkpoint-*"))


def test_its_model_was_measured_on_the_items_of_the_others(killed_run: RunFolder) -> None:
    before, after = (experiment_score(killed_run, number) for number in (1, 2))
    assert [item.id for item in before.every] == [item.id for item in after.every]
    assert after.n == 60 and after.value > 0
    assert digest_file(killed_run.experiment(1).model / "model.safetensors") != digest_file(
        killed_run.experiment(2).model / "model.safetensors"
    )
    made = read_model(killed_run.experiment(2).result, Experiment)
    assert made.outcome in ("promoted", "not promoted") and made.failure is None
    assert read_json(killed_run.report_json)["experiments"][1]["outcome"] == made.outcome


def test_prompts_hold_no_answers_and_no_items(killed_run: RunFolder) -> None:
    folder, home = killed_run.experiment(2), killed_run.root.parent.parent
    prompts = [row["prompt"] for row in read_lines(folder.work / "prompts.input" / "prompts.jsonl")]
    rows = read_json(folder.data / "data.json")
    assert len(prompts) > 100 and set(prompts) <= {row["instruction"] for row in rows}
    splits = ("validation.jsonl", "sealed/validation.jsonl", "sealed/test.jsonl")
    items = {row["prompt"] for split in splits for row in read_lines(home / "benchmarks" / "wordproblems" / split)}
    assert not items & set(prompts)
    command = (folder.jobs / "train.1" / "command.json").read_text()
    assert str(folder.data) not in command and "score.input" not in command, "the trainer sees no answers"


def test_undisturbed_it_ends_with_the_same_weights(killed_run: RunFolder, tmp_path: Path) -> None:
    other, run_tools = ExperimentFolder(tmp_path / "002"), tools(killed_run)
    other.root.mkdir()
    for name in ("hypothesis.json", "train.yaml", "data"):
        (other.root / name).symlink_to(killed_run.experiment(2).root / name)
    methods.launch(run_tools, other, "train")
    while run_tools.status(other.jobs, "train")[0].state == "running":
        methods.tend(run_tools, other, "train")
        time.sleep(0.1)
    assert digest_file(other.model / "model.safetensors") == digest_file(
        killed_run.experiment(2).model / "model.safetensors"
    )


def test_a_verifier_rewards_the_replies_of_a_run(verified_run: RunFolder) -> None:
    folder = verified_run.experiment(2)
    made, done = read_model(folder.result, Experiment), read_model(folder.training, Training)
    assert made.failure is None and made.outcome in ("promoted", "not promoted")
    assert (done.steps, done.stopped) == (9, None) and done.reward and max(done.reward) > 0
    assert [path.name for path in folder.jobs.glob("train.*")] == ["train.1"]
    command = read_command(next(folder.jobs.glob("score.*")))
    assert (command.generated, command.network) == (True, False) and "reasoning_gym" in command.argv[0]
    assert experiment_score(verified_run, 2).n > 0
    # Sixteen items prove little: what is delivered, if anything, depends on chance.
    best = read_json(verified_run.report_json)["best"]
    assert (verified_run.root / "best" / "config.json").is_file() == bool(best["delivered"])


def test_its_verifier_knows_training_rows_alone(verified_run: RunFolder) -> None:
    folder, root = verified_run.experiment(2), tools(verified_run).setup.benchmark_root
    golds = list(read_lines(folder.work / "score.input" / "golds.jsonl"))
    prompts = [row["prompt"] for row in read_lines(folder.work / "prompts.input" / "prompts.jsonl")]
    entries = {json.dumps(row["entry"]) for row in read_lines(root / "train.jsonl")}
    assert len(golds) == len(prompts) > 10
    assert {json.dumps(gold["item"]["entry"]) for gold in golds} <= entries
    readable = " ".join(
        (folder.jobs / job / "command.json").read_text() for job in ("score.1", "train.1", "smoke_run.1")
    )
    assert "/benchmarks/" not in readable and "sealed" not in readable, "no job of the training sees an item"
    assert "score.input" not in (folder.jobs / "train.1" / "command.json").read_text()
    assert '"entry"' not in next((verified_run.root / "datasets").glob("*/rows.jsonl")).read_text()
