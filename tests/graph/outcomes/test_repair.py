"""A recipe that fails is repaired at its author's node, at most three times; then the experiment has failed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import WholeRun
from tuneloop.agents.policy import OfflinePolicy
from tuneloop.core.experiment import DataScript, TrainConfig
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.lifecycle.drive import drive
from tuneloop.tools.runs.journal import load_journal

BAD_SCRIPT = "import sys\nprint('--debug' in sys.argv, 'data.json')\nraise SystemExit('no such column: answer')\n"


class Scripted(OfflinePolicy):
    """The offline policy, but the first answers of one agent are given."""

    def __init__(self, agent: str, answers: list[Any]) -> None:
        super().__init__()
        self.agent, self.answers = agent, answers
        self.told: list[Any] = []
        self.briefs: list[Any] = []

    async def answer(self, agent: str, prompt: str, brief: Any, tools: Any, want: Any) -> Any:
        if agent == self.agent:
            self.told.append(brief.diagnosis)
            self.briefs.append(brief)
            if self.answers:
                return self.answers.pop(0)
        return await super().answer(agent, prompt, brief, tools, want)


@pytest.fixture
def prepared(whole_run, tmp_path: Path) -> tuple[RunFolder, Settings]:
    """A run that is prepared already: the whole run's setup and baseline."""
    return prepared_as(whole_run, f"repair-{tmp_path.name}")


def prepared_as(source: WholeRun, name: str) -> tuple[RunFolder, Settings]:
    """Another run in the same home."""
    settings = Settings(FT_FILE_PATH=source.home)
    run = settings.home.run(name)
    run.root.mkdir()
    for file in ("run.yaml", "setup.json", "signature.json"):
        shutil.copy(source.run.root / file, run.root / file)
    shutil.copytree(source.run.baseline, run.baseline)
    shutil.copytree(source.run.root / "datasets", run.root / "datasets", symlinks=True)
    return run, settings


@pytest.fixture
def here(whole_run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_FILE_PATH", str(whole_run.home))


def nodes(run: RunFolder) -> list[str]:
    from tuneloop.core.event_log import read_events

    return [e.node for e in read_events(run.events)[0] if e.kind == "node_started"]


FETCHES = "import json, sys, requests\nif '--debug' in sys.argv: pass\njson.dump([], open('data.json', 'w'))\n"
BREAKS = """import json, os, sys
rows = [json.loads(line) for line in open(os.environ["DATASETS_DIR"] + "/wordproblems/textbook.csv.jsonl")]
rows = rows[:100] if "--debug" in sys.argv else rows
json.dump([{"instruction": row["no_such_column"], "input": "", "output": "1"} for row in rows], open("data.json", "w"))
"""
COLUMNS = """import json, sys
rows = [{"frage": f"{i} + 1?", "antwort": str(i + 1)} for i in range(20 if "--debug" in sys.argv else 200)]
json.dump(rows, open("data.json", "w"))
"""
MISSPELT = "finetuning_type: full\nlearning_rat: 0.001\ncutoff_len: 256\nmax_steps: 50\n"
RANGE = "finetuning_type: full\nlearning_rate: 0.001\ncutoff_len: 9999\nmax_steps: 50\n"


@pytest.mark.parametrize(
    ("author", "culprit", "broken", "problem", "cure"),
    [
        (
            "data_engineer",
            "script",
            DataScript(code=FETCHES),
            "process_data.py:1: imports requests",
            "read the files below DATASETS_DIR",
        ),
        (
            "data_engineer",
            "script",
            DataScript(code=BREAKS),
            "KeyError: 'no_such_column'",
            "handle what the error says",
        ),
        (
            "data_engineer",
            "data",
            DataScript(code=COLUMNS),
            'data.json:1: row 1 has no field "instruction"',
            "expected instruction, output",
        ),
        ("config_coder", "config", TrainConfig(yaml=MISSPELT), "train.yaml:2 learning_rat:", "write learning_rate for"),
        ("config_coder", "config", TrainConfig(yaml=RANGE), "train.yaml:3 cutoff_len: 9999", "set cutoff_len to 512"),
    ],
    ids=["import", "crash", "columns", "key", "value"],
)
def test_the_culprits_author_learns_what_was_wrong_and_mends_it(
    prepared, here, monkeypatch: pytest.MonkeyPatch, author: str, culprit: str, broken: Any, problem: str, cure: str
) -> None:
    """A real script, real rows, a real config through the real ladder: verdict, way back, second attempt."""
    run, settings = prepared
    planner = Scripted(author, [broken])
    monkeypatch.setattr("tuneloop.graph.context.make_planner", lambda *_: planner)
    back = ["engineer_data", "write_config"] if author == "data_engineer" else ["write_config"]
    drive(run, settings, step_n=5 + len(back))
    assert nodes(run) == ["research", "engineer_data", "write_config", "validate", *back, "validate"]
    first, said = planner.told
    assert first is None
    assert said.culprit == culprit
    assert problem in said.problem
    assert cure in said.repair
    failed = planner.briefs[1]
    assert failed.script and failed.config
    assert broken in (DataScript(code=failed.script), TrainConfig(yaml=failed.config)), "the author sees what failed"
    assert read_state(run) == "build_data", "the second attempt passes"
    assert "learning_rat:" not in run.experiment(1).config.read_text()
    assert f'"culprit": "{culprit}"' in (run.experiment(1).failures / "0.json").read_text()


def read_state(run: RunFolder) -> str:
    """Where the last node led."""
    from tuneloop.core.event_log import read_events

    said = [e.detail for e in read_events(run.events)[0] if e.kind == "node_finished"]
    return str(said[-1]).removeprefix("then ")


def test_a_script_that_never_runs_is_a_failed_experiment(prepared, here, monkeypatch: pytest.MonkeyPatch) -> None:
    run, settings = prepared
    planner = Scripted("data_engineer", [DataScript(code=BAD_SCRIPT)] * 4)
    monkeypatch.setattr("tuneloop.graph.context.make_planner", lambda *_: planner)
    drive(run, settings, step_n=14)
    seen = nodes(run)
    assert seen.count("engineer_data") == 4
    assert seen[-1] == "critique"
    experiment = load_journal(run).experiments[0]
    assert experiment.outcome == "failed"
    assert experiment.failure is not None
    assert "no such column" in experiment.failure.text
    assert experiment.repairs == 3
