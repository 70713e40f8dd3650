"""Shared folders are whole or absent, also when makers crash or race."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_json
from tuneloop.tools.hub.store import MANIFEST, make_complete


def write(name: str) -> Callable[[Path], None]:
    def fill(part: Path) -> None:
        (part / name).write_text(name)

    return fill


def test_a_crash_leaves_nothing_that_is_believed(tmp_path: Path) -> None:
    folder = tmp_path / "x"

    def crash(part: Path) -> None:
        (part / "half").write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        make_complete(folder, crash)
    assert [p.name for p in tmp_path.iterdir()] == [".x.lock"], "what failed is taken away at once"
    make_complete(folder, write("all"))
    assert sorted(p.name for p in folder.iterdir()) == ["all", MANIFEST]


def test_what_a_kill_left_is_made_anew(tmp_path: Path) -> None:
    folder, part = tmp_path / "x", tmp_path / ".x.part"
    part.mkdir()
    (part / "stale").write_text("old")
    make_complete(folder, write("new"), source="here")
    assert not (folder / "stale").exists()
    manifest = read_json(folder / MANIFEST)
    assert manifest["source"] == "here"
    assert set(manifest["files"]) == {"new"}


@pytest.mark.parametrize("keep", [False, True])
def test_a_folder_of_the_user_is_left_alone(tmp_path: Path, keep: bool) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "mine.safetensors").write_text("precious")
    with pytest.raises(InvalidRequestError, match="tuneloop did not make this folder and leaves it as it is"):
        make_complete(folder, write("new"), keep=keep)
    assert [p.name for p in folder.iterdir()] == ["mine.safetensors"]


def test_eight_at_once_make_once(tmp_path: Path) -> None:
    made, barrier = [], threading.Barrier(8)

    def make(part: Path) -> None:
        made.append(1)
        (part / "a").write_text("a")

    def go() -> None:
        barrier.wait()
        make_complete(tmp_path / "x", make)

    threads = [threading.Thread(target=go) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert made == [1]
