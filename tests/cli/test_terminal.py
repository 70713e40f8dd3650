"""What is printed where: piped tables are whole, progress without a terminal is lines."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import RenderableType
from rich.markdown import Markdown
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tuneloop.cli import terminal


def test_a_piped_table_is_never_cut(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    table = Table(box=None)
    for name in ("name", "text"):
        table.add_column(name, no_wrap=True)
    table.add_row("a" * 300, terminal.cell_text("b " * 900))
    terminal.table_console().print(table)
    said = capsys.readouterr().out
    assert "a" * 300 in said and ("b " * 900).strip() in said and "…" not in said
    assert all(line == line.rstrip() for line in said.splitlines())


def test_progress_without_a_terminal_is_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("tuneloop.cli.terminal.time.monotonic", lambda: now[0])
    with terminal.progress_bar("tiny") as say:
        for done in range(101):
            now[0] = float(done)
            say("answers", done, 100)
        say("answers", 100, 100)
        say("scoring", 0, 0)
        say("answers", 1, 100)  # a second attempt
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "tiny: answers: 0/100" and "tiny: answers: 100/100" in lines
    assert 7 <= len([line for line in lines if "answers" in line]) <= 10, lines
    assert lines.count("tiny: answers: 100/100") == 1 and "tiny: scoring" in lines


EVIL = "x\x1b]52;c;QUJD\x07\x9b31m\x1b[2J\u202ey"


@pytest.mark.parametrize(
    "shown", [Text(EVIL), Markdown(f"# {EVIL}\n\n`{EVIL}`"), Panel(EVIL, title=EVIL), EVIL], ids=type
)
def test_texts_have_no_power_over_the_terminal(shown: RenderableType) -> None:
    """Colours of ours are kept, what a text brings is not."""
    out = io.StringIO()
    console = terminal.PlainConsole(file=out, force_terminal=True, color_system=None, legacy_windows=False)
    console.print(shown, markup=False)
    left = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert "]52;c;QUJD" in left
    assert not set(left) & {"\x1b", "\x07", "\x9b", "\u202e"}
