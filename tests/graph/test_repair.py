"""A recipe that fails is repaired at its author's node, at most three times; then the experiment has failed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tuneloop.agents.policy import OfflinePolicy
from tuneloop.core.experiment import DataScript, TrainConfig
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.journal import load_journal
from tuneloop.graph.runs import drive

BAD_SCRIPT = "import sys\nprint('--debug' in sys.argv, 'data.json')\nraise SystemExit('no such column: answer')\n"


class Scripted(OfflinePolicy):
    """The offline policy, but the first answers of one agent are given."""

    def __init__(self, agent: str, answers: list[Any]) -> None:
        super().__init__()
        self.agent, self.answers = agent, answers
        self.told: list[Any] = []

    async def answer(self, agent: str, prompt: str, brief: Any, tools: Any, want: Any) -> Any:
        if agent == self.agent:
            self.told.append(brief.diagnosis)
            if self.answers:
                return self.answers.pop(0)
        return await super().answer(agent, prompt, brief, tools, want)


@pytest.fixture
def prepared(whole_run, tmp_path: Path) -> tuple[RunFolder, Settings]:
    """A run that is prepared already: the whole run's setup and baseline."""
    settings = Settings(FT_FILE_PATH=whole_run.home)
    run = settings.home.run(f"repair-{tmp_path.name}")
    run.root.mkdir()
    for name in ("run.yaml", "setup.json"):
        shutil.copy(whole_run.run.root / name, run.root / name)
    shutil.copytree(whole_run.run.baseline, run.baseline)
    shutil.copytree(whole_run.run.root / "datasets", run.root / "datasets", symlinks=True)
    return run, settings


@pytest.fixture
def here(whole_run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_FILE_PATH", str(whole_run.home))


def nodes(run: RunFolder) -> list[str]:
    from tuneloop.core.event_log import read_events

    return [e.node for e in read_events(run.events)[0] if e.kind == "node_started"]


def test_a_bad_key_goes_back_to_the_config_coder(prepared, here, monkeypatch: pytest.MonkeyPatch) -> None:
    run, settings = prepared
    planner = Scripted(
        "config_coder", [TrainConfig(yaml="finetuning_type: full\nlearning_rat: 0.001\ncutoff_len: 256\n")]
    )
    monkeypatch.setattr("tuneloop.graph.context.choose_planner", lambda: planner)
    drive(run, settings, step_n=7)
    assert nodes(run)[:6] == ["research", "engineer_data", "write_config", "validate", "write_config", "validate"]
    assert planner.told[1].culprit == "config"
    assert "learning_rat" in planner.told[1].problem
    assert "learning_rat:" not in run.experiment(1).config.read_text()


def test_a_script_that_never_runs_is_a_failed_experiment(prepared, here, monkeypatch: pytest.MonkeyPatch) -> None:
    run, settings = prepared
    planner = Scripted("data_engineer", [DataScript(code=BAD_SCRIPT)] * 4)
    monkeypatch.setattr("tuneloop.graph.context.choose_planner", lambda: planner)
    drive(run, settings, step_n=14)
    seen = nodes(run)
    assert seen.count("engineer_data") == 4
    assert seen[-1] == "critique"
    experiment = load_journal(run).experiments[0]
    assert experiment.outcome == "failed"
    assert experiment.failure is not None
    assert "no such column" in experiment.failure.text
    assert experiment.repairs == 3
