"""The files of a run tell where it stands: at every boundary the same as the checkpoint, or a node that finds its work done."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuneloop.agents.policy import OfflinePolicy
from tuneloop.core.event_log import append, iter_events
from tuneloop.core.events import NodeFinished
from tuneloop.core.experiment import TrainConfig
from tuneloop.core.files import write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.checkpoints.store import open_checkpoints
from tuneloop.graph.lifecycle.drive import drive
from tuneloop.graph.lifecycle.rebuild import is_behind, rebuild
from tuneloop.graph.state import NodeFailure, State
from tuneloop.tools.runs.journal import load_journal
from tuneloop.tools.runs.manifest import write_manifest

AFTER_WRITING = ("write_config", "build_data", "smoke_run", "train")


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "runs" / "r1")
    write_manifest(run, RunSpec(benchmark="b", base_model="m", loop_n=2))
    return run


def state(run: RunFolder) -> State:
    return rebuild(run, Settings(FT_FILE_PATH=run.root.parent.parent))


def put(file: Path, value: Any) -> None:
    """What a node leaves; text as it is."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(value if isinstance(value, str) else json.dumps(value))


def prepared(run: RunFolder) -> None:
    put(run.setup, {})
    put(run.baseline / "scores.json", {})
    put(run.baseline / "spent.json", {"seconds": 5.0})


def steps(run: RunFolder, attempt: int = 0) -> list[tuple[str, Callable[[], None]]]:
    """Where the first experiment stands, and what makes it stand at the next place."""
    folder = run.experiment(1)

    def script() -> None:
        put(folder.answers / f"data_engineer.{attempt}.json", {"code": f"code {attempt}"})
        put(folder.script, f"code {attempt}")

    def config() -> None:
        put(folder.answers / f"config_coder.{attempt}.json", {"yaml": f"a: {attempt}"})
        put(folder.config, f"a: {attempt}")

    return [
        ("research", lambda: put(folder.hypothesis, {})),
        ("engineer_data", script),
        ("write_config", config),
        ("validate", lambda: put(folder.jobs / "build_data.1" / "command.json", {})),
        ("build_data", lambda: put(folder.jobs / "smoke_run.1" / "command.json", {})),
        ("smoke_run", lambda: put(folder.jobs / "train.1" / "command.json", {})),
        ("train", lambda: put(folder.training, {})),
        ("evaluate", lambda: put(folder.scores, {})),
        ("critique", lambda: None),
    ]


def test_every_place_of_an_experiment(run: RunFolder) -> None:
    assert state(run).stage == "prepare"
    prepared(run)
    for stage, go in steps(run):
        found = state(run)
        assert (found.stage, found.attempt, found.failure) == (stage, 0, None)
        assert found.experiment == (0 if stage == "research" else 1)
        go()
    assert found.spent == 5.0


def test_a_script_that_was_answered_but_not_written_is_written(run: RunFolder) -> None:
    prepared(run)
    folder = run.experiment(1)
    put(folder.hypothesis, {})
    put(folder.answers / "data_engineer.0.json", {"code": "new"})
    assert state(run).stage == "engineer_data"
    put(folder.script, "half of another")
    assert state(run).stage == "engineer_data"


@pytest.mark.parametrize(("culprit", "leads"), [("script", "engineer_data"), ("config", "write_config")])
def test_repairs_are_counted_and_enter_at_their_author(run: RunFolder, culprit: str, leads: str) -> None:
    prepared(run)
    folder = run.experiment(1)
    for _, go in steps(run)[:5]:
        go()
    for attempt in range(2):
        failed = NodeFailure(node="smoke_run", culprit=culprit, text="x", leads=leads)
        write_json(folder.failures / f"{attempt}.json", failed.model_dump())
        found = state(run)
        assert (found.stage, found.attempt, found.failure) == (leads, attempt + 1, failed)
        assert is_behind(State(run_id="r1", experiment=1, attempt=attempt), run)
        assert not is_behind(found, run)
        steps(run, attempt + 1)[1 if culprit == "script" else 2][1]()
        assert state(run).stage == "validate", "jobs of the recipe before prove nothing"
    given_up = NodeFailure(node="validate", culprit=culprit, text="y", leads="critique")
    write_json(folder.failures / "2.json", given_up.model_dump())
    found = state(run)
    assert (found.stage, found.attempt, found.failure) == ("critique", 2, given_up)


def spoken(run: RunFolder, *words: str) -> None:
    """`node>then` of the first experiment."""
    for word in words:
        node, _, then = word.partition(">")
        append(run.events, NodeFinished(experiment=1, node=node, seconds=1, detail=f"then {then}"))


def test_after_repair_complete_node_files_are_trusted(run: RunFolder) -> None:
    prepared(run)
    folder = run.experiment(1)
    for _, go in steps(run)[:5]:
        go()
    failed = NodeFailure(node="smoke_run", culprit="config", text="x", leads="write_config")
    write_json(folder.failures / "0.json", failed.model_dump())
    steps(run, 1)[2][1]()
    spoken(run, "validate>build_data", "build_data>smoke_run")
    assert state(run).stage == "validate", "the word of the repair was lost: these are of the recipe before"
    spoken(run, "smoke_run>write_config")
    assert state(run).stage == "validate"
    spoken(run, "write_config>validate", "validate>build_data", "build_data>smoke_run")
    assert state(run).stage == "smoke_run"
    run.events.unlink()
    assert state(run).stage == "validate"


def test_between_experiments_and_at_the_end(run: RunFolder, make_long_run: Callable[..., RunFolder]) -> None:
    long = make_long_run(RunFolder(run.root.parent / "long"), experiments=2, progress=3)
    found = rebuild(long, Settings(FT_FILE_PATH=run.root.parent.parent))
    assert (found.stage, found.experiment) == ("research", 2)
    assert found.spent == pytest.approx(
        165
    )  # what 16 nodes say, or what two experiments and prepare say if that is more
    long.events.unlink()
    assert rebuild(long, Settings(FT_FILE_PATH=run.root.parent.parent)).spent == pytest.approx(165)
    write_manifest(long, RunSpec(benchmark="b", base_model="m", loop_n=2))
    done = rebuild(long, Settings(FT_FILE_PATH=run.root.parent.parent))
    assert (done.stage, done.experiment) == ("prepare", 2), "the node that asks who is there before it leads to the end"
    long.report_json.write_text("{}")
    assert rebuild(long, Settings(FT_FILE_PATH=run.root.parent.parent)).stage == "__end__"


def test_checkpoint_older_than_files_is_rebuilt(run: RunFolder) -> None:
    prepared(run)
    folder = run.experiment(1)
    assert not is_behind(State(run_id="r1", stage="research"), run)
    put(folder.answers / "researcher.0.md", "prompt")
    assert not is_behind(State(run_id="r1", stage="research"), run)
    put(folder.hypothesis, {})
    assert is_behind(State(run_id="r1", stage="research"), run)
    assert not is_behind(State(run_id="r1", stage="critique", experiment=1, attempt=2), run)


class Clumsy(OfflinePolicy):
    """The offline policy, but its first config has a bad key."""

    def __init__(self) -> None:
        super().__init__()
        self.clumsy = True

    async def answer(self, agent: str, prompt: str, brief: Any, tools: Any, want: Any) -> Any:
        answer = await super().answer(agent, prompt, brief, tools, want)
        if agent == "config_coder" and self.clumsy:
            self.clumsy = False
            return TrainConfig(yaml=answer.yaml.replace("learning_rate", "learning_rat"))
        return answer


def told(run: RunFolder) -> list[dict[str, Any]]:
    rows = [e.model_dump(mode="json") for e in load_journal(run).experiments]
    for row in rows:
        for name in ("seconds", "config", "repairs"):  # a repaired config has the same lines in another order
            row.pop(name)
        for name in ("seconds", "spent", "forecast"):
            row["training"].pop(name)
    return rows


def copy_prepared(source: RunFolder, run: RunFolder) -> None:
    """A run that is prepared already, in the same home."""
    run.root.mkdir(parents=True)
    argv = [
        "cp",
        "-a",
        *(str(source.root / n) for n in ("run.yaml", "setup.json", "signature.json", "baseline", "datasets")),
        str(run.root),
    ]
    subprocess.run(argv, check=True)


@pytest.mark.soak
def test_at_every_node_of_a_real_run(whole_run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stepped node by node through a repair; the checkpoint is thrown away at every second node; the journal is the same."""
    monkeypatch.setenv("FT_FILE_PATH", str(whole_run.home))
    settings = Settings(FT_FILE_PATH=whole_run.home)
    planner = Clumsy()
    monkeypatch.setattr("tuneloop.graph.context.make_planner", lambda *_: planner)
    run = settings.home.run("rebuilt")
    copy_prepared(whole_run.run, run)
    seen = []
    for session in range(40):
        if drive(run, settings, step_n=1).state == "finished":
            break
        with open_checkpoints(run, None) as store:
            values = store.values()
        assert values is not None
        kept, found = State.model_validate(values), rebuild(run, settings)
        seen.append((kept.stage, found.stage))
        if kept.stage != "research":
            assert (found.experiment, found.attempt, found.failure) == (kept.experiment, kept.attempt, kept.failure)
        assert found.spent == pytest.approx(kept.spent, abs=0.1 * (session + 1))
        if kept.stage == "finish":
            assert found.stage in ("finish", "prepare"), "which leads there, once it has asked who is there"
        elif found.stage != kept.stage:
            assert found.stage == "validate", "from here on every node finds its work done"
            assert kept.stage in AFTER_WRITING
        if session % 2:
            for file in run.root.glob("checkpoint.sqlite*"):
                file.unlink()
    assert ("write_config", "write_config") in seen
    assert told(run) == told(whole_run.run)
    assert load_journal(run).experiments[0].repairs == 1
    jobs = sorted(j.name for j in run.experiment(1).jobs.iterdir() if j.is_dir())
    assert [j for j in jobs if j.startswith("train")] == ["train.1"]


def test_damaged_checkpoint_is_reported_and_rebuilt(short_run) -> None:
    run = RunFolder(short_run.home / "runs" / "damaged")
    copy_prepared(short_run.run, run)
    env = {**os.environ, "FT_FILE_PATH": str(short_run.home)}
    resume = [sys.executable, "-m", "tuneloop.cli.main", "resume", "damaged", "--step-n", "2"]
    subprocess.run(resume, env=env, cwd=short_run.home, check=True, capture_output=True)
    run.checkpoint.write_bytes(run.checkpoint.read_bytes()[:6000])
    p = subprocess.run(resume, env=env, cwd=short_run.home, capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    assert "rebuilt from the run's files" in p.stdout
    assert (run.root / "checkpoint.sqlite.broken-1").is_file()
    nodes = [e.node for e in iter_events(run.events, "node_started")]  # type: ignore[union-attr]
    assert nodes == ["research", "engineer_data", "write_config", "validate"]
