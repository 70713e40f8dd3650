"""What a job, a model or a data set says is shown as text: it moves no cursor, sets no title, reorders no line."""

from __future__ import annotations

import unicodedata

import pytest

from tuneloop.cli.main import Commands, cli
from tuneloop.cli.plain_view import json_view, plain_view
from tuneloop.core import events as e
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.formatting import printable
from tuneloop.tools.runs import event_text

SAYINGS = {
    "title": "\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;cm0gLXJm\x07",
    "link": "\x1b]8;;http://169.254.169.254/\x1b\\here\x1b]8;;\x1b\\",
    "clear": "\x1b[2J\x1b[H",
    "eight bits": "\x9b2J\x9d0;owned\x9c",
    "overwrite": "failed\rsuccess",
    "erase": "failed\b\b\b\b\b\bpassed",
    "backwards": "\u202egnp.exe\u2066",
    "new lines": "one\ntwo\u2028three\x0bfour\x0cfive\x85six",
    "answerback": "\x05",
    "half a character": "\udcff",
    "long": "x" * 1_000_000,
}


def quiet(shown: str) -> bool:
    """Nothing in it does anything but be read."""
    return all(c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") for c in shown)


def told(text: str) -> list[e.Event]:
    """Every event that carries somebody's words."""
    return [
        e.RunStarted(run="r", benchmark=text, base_model=text, planner="p", sandbox="s"),
        e.NodeFinished(node="train", seconds=1, detail=text),
        e.AgentAnswered(agent="critic", says=text, why=text),
        e.JobProgress(job="train", done=1, total=2, note=text),
        e.MonitorFinding(job="train", failure="nan", text=text, step=1, total=2, stops=True),
        e.RecipeFailure(node="train", culprit="config", text=text),
        e.ExperimentFinished(outcome="failed", statement=text),
        e.RunPaused(reason=text),
    ]


@pytest.mark.parametrize("saying", SAYINGS)
def test_events_are_shown_as_text(saying, capsys):
    with plain_view() as show:
        show(told(SAYINGS[saying]))
    shown = capsys.readouterr().out
    assert quiet(shown)
    assert len(shown.splitlines()) == len(told(""))
    assert len(shown) < 10_000


@pytest.mark.parametrize("saying", [name for name in SAYINGS if name != "half a character"])
def test_events_for_scripts_are_plain_letters(saying, capsys):
    with json_view() as show:
        show(told(SAYINGS[saying]))
    assert quiet(shown := capsys.readouterr().out)
    assert shown.isascii()


@pytest.mark.parametrize("error", [InfrastructureError, InvalidRequestError])
@pytest.mark.parametrize("saying", SAYINGS)
def test_error_is_one_escaped_line(saying, error, capsys, monkeypatch):
    def fails(*_, **__):
        raise error(f"the job said {SAYINGS[saying]}")

    monkeypatch.setattr(Commands.__mro__[1], "main", fails)
    with pytest.raises(SystemExit):
        cli.main([])
    shown = capsys.readouterr().err
    assert quiet(shown)
    assert shown.count("\n") == 1
    assert len(shown) < 30_000


@pytest.mark.parametrize("saying", ["title", "eight bits", "overwrite", "backwards", "new lines"])
def test_without_cleaning_they_would_do_it(saying, capsys, monkeypatch):
    monkeypatch.setattr(event_text, "printable", lambda text, limit=0: text)
    with plain_view() as show:
        show(told(SAYINGS[saying]))
    shown = capsys.readouterr().out
    assert not quiet(shown) or len(shown.splitlines()) > len(told(""))


def test_what_is_cleaned_stays_readable():
    assert printable("a\x1b[31mred\x1b[0m word, 日本語 ünd 😀") == "a [31mred [0m word, 日本語 ünd 😀"
