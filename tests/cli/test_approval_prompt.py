"""A person at a terminal answers what a run asks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tuneloop.cli import approval_prompt
from tuneloop.cli.approval_prompt import ask_in_terminal
from tuneloop.cli.drive import drive_in_terminal
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.experiment import ApprovalDecision, ApprovalRequest, Hypothesis
from tuneloop.core.files import write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings, load_settings
from tuneloop.graph.lifecycle.drive import RunOutcome
from tuneloop.tools.runs.approvals import (
    edit_to_answer,
    editable_texts,
    find_decision,
    open_question,
    write_decision,
    write_question,
)
from tuneloop.tools.runs.manifest import write_manifest

ASKED = ApprovalRequest(
    at="plan", experiment=1, key="k", text="Experiment 1: carry out this plan?\nIdea: \x1b[2Jlonger"
)
Type = Callable[[str], None]


@pytest.fixture
def run() -> RunFolder:
    made = load_settings().home.run("r1")
    write_manifest(made, RunSpec(benchmark="wordproblems", base_model="tiny", approve="plan"))
    folder = made.experiment(1)
    idea = Hypothesis(statement="longer", reason="r", disproof="d", aspect="underfit")
    write_json(folder.hypothesis, idea.model_dump(mode="json"))
    folder.script.write_text("print()")
    folder.config.write_text("a: 1\n")
    write_question(folder, ASKED)
    return made


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Type:
    """What is typed is read from standard input."""
    out, into = os.pipe()
    monkeypatch.setattr("sys.stdin", os.fdopen(out))
    return lambda text: (os.write(into, text.encode()), None)[1]


def answer(run: RunFolder) -> ApprovalDecision | None:
    return find_decision(run.experiment(1), "plan", "k")


def test_no_with_a_reason(run: RunFolder, typed: Type, capsys: pytest.CaptureFixture[str]) -> None:
    typed("perhaps\nno too dear\n")
    assert ask_in_terminal(run, load_settings(), ASKED)
    assert answer(run) == ApprovalDecision(decision="no", reason="too dear")
    said = capsys.readouterr().err
    assert "'perhaps' is no answer; right is yes, no REASON, edit or quit" in said
    assert "\x1b" not in said


def test_left_open(run: RunFolder, typed: Type) -> None:
    typed("q\n")
    assert not ask_in_terminal(run, load_settings(), ASKED)
    assert open_question(run) == ASKED


def test_answered_by_another_process_meanwhile(
    run: RunFolder, typed: Type, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(approval_prompt, "GLANCE", 0.01)
    other = threading.Timer(
        0.05, lambda: write_decision(run.experiment(1), "plan", "k", ApprovalDecision(decision="yes"))
    )
    other.start()
    assert ask_in_terminal(run, load_settings(), ASKED)
    other.join()


def test_edited(run: RunFolder, typed: Type, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text(
        '#!/bin/sh\nfor f in "$@"; do sed -i "s/^a: 1/a: 2/; s/statement: longer/statement: shorter/" "$f"; done\n'
    )
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    typed("e\n")
    assert ask_in_terminal(run, load_settings(), ASKED)
    found = answer(run)
    assert found is not None and found.hypothesis is not None
    assert (found.decision, found.files, found.hypothesis.statement) == ("edit", {"train.yaml": "a: 2\n"}, "shorter")
    assert run.experiment(1).config.read_text() == "a: 1\n", "who works on the run writes it"


def test_what_an_edit_means(run: RunFolder) -> None:
    before = editable_texts(run.experiment(1))
    assert edit_to_answer(before, dict(before)) == ApprovalDecision(decision="yes")
    with pytest.raises(InvalidRequestError, match=r"hypothesis.yaml: .*nothing was changed"):
        edit_to_answer(before, {**before, "hypothesis.yaml": "statement: ''"})
    with pytest.raises(InvalidRequestError, match=r"hypothesis\.yaml"):
        edit_to_answer(before, {**before, "hypothesis.yaml": "a: [1"})


def test_without_a_terminal_the_run_pauses_and_says_where_to_answer(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions = [RunOutcome("paused", "asked", asks=True)]
    monkeypatch.setattr("tuneloop.cli.drive.drive", lambda *_, **__: sessions.pop())
    assert drive_in_terminal(run, Settings(), step_n=None, as_json=True) == 0
    said = capsys.readouterr().err
    assert "carry out this plan?" in said
    assert "tuneloop chat r1" in said
    assert "tuneloop resume r1" in said
