"""A person at a terminal says what becomes of a limit that is reached; who is not there does not keep the run waiting."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tuneloop.cli.drive import ask_for_more
from tuneloop.core.directive_log import read_conversation
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import load_settings
from tuneloop.graph.budget.limits import is_finish_requested
from tuneloop.tools.budget.limits import current_limits
from tuneloop.tools.runs.manifest import read_spec, write_manifest

QUESTION = "Spent: money: 2.00 of 2.00 USD."
Type = Callable[[str], None]


@pytest.fixture
def run() -> RunFolder:
    made = load_settings().home.run("r1")
    write_manifest(made, RunSpec(benchmark="wordproblems", base_model="tiny", max_cost=2))
    return made


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Type:
    out, into = os.pipe()
    monkeypatch.setattr("sys.stdin", os.fdopen(out))
    return lambda text: (os.write(into, text.encode()), None)[1]


def test_more_is_given(run: RunFolder, typed: Type, capsys: pytest.CaptureFixture[str]) -> None:
    typed("hm\nmore $5\n")
    assert ask_for_more(run, load_settings(), QUESTION)
    assert current_limits(run, read_spec(run)).money == 7
    said = capsys.readouterr().err
    assert QUESTION in said and "no command" in said and "+5 USD" in said


def test_finish_in_one_letter(run: RunFolder, typed: Type) -> None:
    typed("f\n")
    assert ask_for_more(run, load_settings(), QUESTION)
    assert is_finish_requested(run)


def test_left_open(run: RunFolder, typed: Type) -> None:
    typed("q\n")
    assert not ask_for_more(run, load_settings(), QUESTION)
    assert not read_conversation(run.conversation)


def test_budget_question_without_answer(run: RunFolder, typed: Type, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask_for_more(run, load_settings(), QUESTION, patience=0.01)
    assert is_finish_requested(run)
    assert "nobody answered" in capsys.readouterr().err
