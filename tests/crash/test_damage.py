"""Damaged homes: every command says in one line what is wrong with which file, and loses nothing; DAMAGE_SEED=N repeats one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from tuneloop.tools.runs import messages

from .damage import make_home, meet_damage

HOMES, ALL = 40, 1000
FOUND = (94, 275, 307, 388, 436, 637, 812, 984)  # of the thousand, those that once went wrong
ONLY = os.environ.get("DAMAGE_SEED")


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A whole home and the place at which it was made: its files name that place."""
    root = tmp_path_factory.mktemp("damage")
    make_home(root / "home")
    shutil.copytree(root / "home", root / "pristine", symlinks=True)
    return root / "pristine", root / "home"


def meet_all(pristine: tuple[Path, Path], seeds: Iterable[int], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What went wrong in any of these homes."""
    whole, home = pristine
    monkeypatch.setenv("FT_FILE_PATH", str(home))
    monkeypatch.setenv("FT_ENGINES_DIR", str(home / "engines"))
    monkeypatch.setattr(messages, "START_SECONDS", 0.1)  # nobody takes these runs up
    monkeypatch.chdir(home.parent)
    chosen = [int(ONLY)] if ONLY else seeds
    return [said for seed in chosen for said in meet_damage(whole, home, seed)]


@pytest.mark.slow
def test_damaged_home_is_one_line(pristine, monkeypatch) -> None:
    """No traceback, a documented exit code, nothing lost."""
    wrong = meet_all(pristine, [*range(HOMES), *FOUND], monkeypatch)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_thousand_damaged_homes(pristine, monkeypatch) -> None:
    """As above, with many more."""
    wrong = meet_all(pristine, range(HOMES, ALL), monkeypatch)
    assert not wrong, "\n\n".join(wrong)
