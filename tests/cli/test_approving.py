"""A person at a terminal answers what a run asks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tuneloop.cli import approving
from tuneloop.cli.approving import ask_here, changed, copies
from tuneloop.cli.work import work
from tuneloop.core.approval import Asked, Decision
from tuneloop.core.errors import SetupError
from tuneloop.core.experiment import Hypothesis
from tuneloop.core.files import write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.run import RunSpec
from tuneloop.core.settings import Settings, load_settings
from tuneloop.graph.runs import RunOutcome
from tuneloop.tools.runs.approvals import decide, find_decision, open_question, put_question
from tuneloop.tools.runs.manifest import write_manifest

ASKED = Asked(at="plan", experiment=1, key="k", text="Experiment 1: carry out this plan?\nIdea: \x1b[2Jlonger")
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
    put_question(folder, ASKED)
    return made


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Type:
    """What is typed is read from standard input."""
    out, into = os.pipe()
    monkeypatch.setattr("sys.stdin", os.fdopen(out))
    return lambda text: (os.write(into, text.encode()), None)[1]


def answer(run: RunFolder) -> Decision | None:
    return find_decision(run.experiment(1), "plan", "k")


def test_no_with_a_reason(run: RunFolder, typed: Type, capsys: pytest.CaptureFixture[str]) -> None:
    typed("perhaps\nno too dear\n")
    assert ask_here(run, load_settings(), ASKED)
    assert answer(run) == Decision(decision="no", reason="too dear")
    said = capsys.readouterr().err
    assert "'perhaps' is no answer; right is yes, no REASON, edit or quit" in said
    assert "\x1b" not in said


def test_left_open(run: RunFolder, typed: Type) -> None:
    typed("q\n")
    assert not ask_here(run, load_settings(), ASKED)
    assert open_question(run) == ASKED


def test_answered_by_another_process_meanwhile(
    run: RunFolder, typed: Type, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(approving, "GLANCE", 0.01)
    other = threading.Timer(0.05, lambda: decide(run.experiment(1), "plan", "k", Decision(decision="yes")))
    other.start()
    assert ask_here(run, load_settings(), ASKED)
    other.join()


def test_edited(run: RunFolder, typed: Type, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text(
        '#!/bin/sh\nfor f in "$@"; do sed -i "s/^a: 1/a: 2/; s/statement: longer/statement: shorter/" "$f"; done\n'
    )
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    typed("e\n")
    assert ask_here(run, load_settings(), ASKED)
    found = answer(run)
    assert found is not None and found.hypothesis is not None
    assert (found.decision, found.files, found.hypothesis.statement) == ("edit", {"train.yaml": "a: 2\n"}, "shorter")
    assert run.experiment(1).config.read_text() == "a: 1\n", "who works on the run writes it"


def test_what_an_edit_means(run: RunFolder) -> None:
    before = copies(run.experiment(1))
    assert changed(before, dict(before)) == Decision(decision="yes")
    with pytest.raises(SetupError, match=r"hypothesis.yaml: .*nothing was changed"):
        changed(before, {**before, "hypothesis.yaml": "statement: ''"})
    with pytest.raises(SetupError, match=r"hypothesis\.yaml"):
        changed(before, {**before, "hypothesis.yaml": "a: [1"})


def test_without_a_terminal_the_run_pauses_and_says_where_to_answer(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sittings = [RunOutcome("paused", "asked", asks=True)]
    monkeypatch.setattr("tuneloop.cli.work.drive", lambda *_, **__: sittings.pop())
    assert work(run, Settings(), step_n=None, as_json=True) == 0
    said = capsys.readouterr().err
    assert "carry out this plan?" in said
    assert "tuneloop chat r1" in said
    assert "tuneloop resume r1" in said
