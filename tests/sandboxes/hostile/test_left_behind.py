"""What a job leaves for those who clean up, measure and look: names, links, pipes, sockets, depths, closed folders."""

from __future__ import annotations

import os
import resource
import shutil
import socket

import pytest

from tuneloop.core.layout import ExperimentFolder
from tuneloop.core.locks import is_locked
from tuneloop.tools.housekeeping.disk import bytes_below, remove_deep_folder, remove_path
from tuneloop.tools.housekeeping.pruning import prunable_entries
from tuneloop.tools.housekeeping.removable import inspect_folder

SECRET = "secret-4f21"


def deep(place, levels, name="d"):
    """Folders in folders; the last one holds a file."""
    place.mkdir(exist_ok=True)
    back, here = os.open(".", os.O_RDONLY), os.open(place, os.O_RDONLY)
    try:
        for _ in range(levels):
            os.mkdir(name, dir_fd=here)
            inner = os.open(name, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = inner
        os.close(os.open("last", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    finally:
        os.close(here)
        os.close(back)


@pytest.mark.parametrize(("levels", "name"), [(1200, "d"), (60, "d" * 200)])
def test_endless_folders_are_removed_and_measured(tmp_path, levels, name):
    deep(tmp_path / "work", levels, name)
    (tmp_path / "work" / "first").write_text("x")  # folders and empty files take nothing on tmpfs
    assert bytes_below(tmp_path / "work") > 0
    assert not inspect_folder(tmp_path).alive
    remove_path(tmp_path / "work")
    assert list(tmp_path.iterdir()) == []


def test_python_alone_cannot_remove_them(tmp_path):
    """Python 3.13 needs a descriptor a level, older ones a call; neither has enough here."""
    deep(tmp_path / "work", 1200)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))  # of other tests in this process
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 256, hard))
    try:
        with pytest.raises((RecursionError, OSError)):
            shutil.rmtree(tmp_path / "work")
        remove_deep_folder(tmp_path / "work")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_closed_folders_are_removed(tmp_path):
    (tmp_path / "work/closed/inner").mkdir(parents=True)
    (tmp_path / "work/closed/inner/x").touch()
    (tmp_path / "work/closed/inner").chmod(0)
    (tmp_path / "work/closed").chmod(0)
    remove_path(tmp_path / "work")
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path):
    (tmp_path / "host").mkdir()
    (tmp_path / "host/canary").write_text(SECRET)
    for name in ("work", ".x.1.part"):
        (tmp_path / name).symlink_to(tmp_path / "host")
        remove_path(tmp_path / name)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/link").symlink_to(tmp_path / "host")
    remove_path(tmp_path / "folder")
    assert (tmp_path / "host/canary").read_text() == SECRET
    assert [path.name for path in tmp_path.iterdir()] == ["host"]


@pytest.fixture(params=["pipe", "socket", "link", "dangling", "folder"])
def no_lock(request, tmp_path, monkeypatch):
    """Something that is called as a lock is."""
    monkeypatch.chdir(tmp_path)
    make = {
        "pipe": lambda: os.mkfifo("lock"),
        "socket": lambda: socket.socket(socket.AF_UNIX).bind("lock"),
        "link": lambda: os.symlink("/etc/passwd", "lock"),
        "dangling": lambda: os.symlink("/nonesuch", "lock"),
        "folder": lambda: os.mkdir("lock"),
    }
    make[request.param]()
    return tmp_path / "lock"


def test_looking_for_locks_neither_waits_nor_fails(no_lock):
    assert not is_locked(no_lock)
    assert not inspect_folder(no_lock.parent).alive


@pytest.mark.parametrize("name", ["a\nb.part", "-rf", "\u202etxt.part", "x" * 250, os.fsdecode(b"\xff\xfe"), " ", "~"])
def test_odd_names_are_measured_looked_at_and_removed(tmp_path, name):
    place = tmp_path / "work"
    (place / name).mkdir(parents=True)
    (place / name / name).write_bytes(b"x" * 5000)
    (place / f".{name[:200]}.part").touch()
    assert bytes_below(place) >= 8192
    assert not inspect_folder(place).alive
    remove_path(place)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["checkpoint-1", "hf", ".x.part"])
def test_pruning_removes_nothing_behind_a_link(tmp_path, name):
    (tmp_path / "host" / name).mkdir(parents=True)
    (tmp_path / "host" / name / "canary").write_text(SECRET)
    folder = ExperimentFolder(tmp_path / "001")
    for place in (folder.work, folder.model):
        place.mkdir(parents=True)
        (place / name).symlink_to(tmp_path / "host" / name)
        (place / "through").symlink_to(tmp_path / "host")
    for path in prunable_entries(folder, weights=True, raw=True):
        remove_path(path)
    assert (tmp_path / "host" / name / "canary").read_text() == SECRET
