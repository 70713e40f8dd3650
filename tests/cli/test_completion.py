"""`tuneloop completion`: the shell is told words, and one command writes what it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tuneloop.cli.main import cli


def call(*args: str, home: Path, shell: str = "") -> str:
    result = CliRunner().invoke(cli, ["completion", *args], env={"HOME": str(home), "SHELL": shell})
    assert result.exit_code == (0 if shell or len(args) > 1 or args[:1] != ("--install",) else 2), result.output
    return result.output


@pytest.mark.parametrize(("typed", "expected"), [("sta", "status"), ("run --see", "--seeds"), ("params ch", "check")])
def test_tab_completes_commands_and_options(typed: str, expected: str) -> None:
    words = f"tuneloop {typed}"
    told = {**os.environ, "_TUNELOOP_COMPLETE": "bash_complete", "COMP_WORDS": words}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv = ['tuneloop']; from tuneloop.cli.main import main; main()"],
        env={**told, "COMP_CWORD": str(len(words.split()) - 1)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"plain,{expected}" in done.stdout.splitlines(), done


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_install_writes_once_and_keeps_the_start_file(tmp_path: Path, shell: str) -> None:
    start = tmp_path / f".{shell}rc"
    start.write_text("export MINE=1")
    assert str(start) in call("--install", home=tmp_path, shell=f"/bin/{shell}")
    first = start.read_text()
    assert first.startswith("export MINE=1\n") and first.count("tuneloop") >= 1
    assert "written" not in call(shell, "--install", home=tmp_path)
    assert start.read_text() == first


def test_the_installed_script_is_one_that_bash_reads(tmp_path: Path) -> None:
    call("bash", "--install", home=tmp_path)
    done = subprocess.run(
        ["bash", "-c", ". ~/.bashrc && complete -p tuneloop"],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "tuneloop" in done.stdout, done


def test_fish_reads_its_own_folder(tmp_path: Path) -> None:
    call("fish", "--install", home=tmp_path)
    assert "complete" in (tmp_path / ".config/fish/completions/tuneloop.fish").read_text()


def test_an_unknown_shell_is_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["completion", "--install"], env={"HOME": str(tmp_path), "SHELL": "/bin/odd"})
    assert result.exit_code == 2 and "bash|zsh|fish" in result.stderr
    assert not any(tmp_path.iterdir())
