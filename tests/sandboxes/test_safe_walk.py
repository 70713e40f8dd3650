"""A folder is measured and kept while its owner changes it: nobody is led elsewhere, nothing is hidden."""

import os
import threading

import pytest

from tuneloop.sandboxes.job_output import fsync_below
from tuneloop.sandboxes.safe_walk import BOUNDLESS, DEEPEST, ENTRY, disk_usage, unlinked_bytes, walk_below


def nested(place, depth):
    """Folders in folders, deeper than a path can say."""
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(place)
        for _ in range(depth):
            os.mkdir("d" * 100)
            os.chdir("d" * 100)
    finally:
        os.fchdir(before)
        os.close(before)


def test_links_are_names_and_lead_nowhere(tmp_path):
    (tmp_path / "out").symlink_to("/usr")
    assert [entry.name for _, entry in walk_below(str(tmp_path))] == ["out"]
    assert disk_usage([str(tmp_path)], []) == ENTRY


def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(tmp_path):
    elsewhere, work, over = tmp_path / "elsewhere", tmp_path / "work", threading.Event()
    elsewhere.mkdir()
    (elsewhere / "secret").write_text("x")
    (work / "a").mkdir(parents=True)

    def swap():
        while not over.is_set():
            (work / "a").rename(work / "b")
            (work / "a").symlink_to(elsewhere)
            (work / "a").unlink()
            (work / "b").rename(work / "a")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        found = {entry.name for _ in range(2000) for _, entry in walk_below(str(work))}
    finally:
        over.set()
        thread.join()
    assert found <= {"a", "b"}


def test_what_lies_too_deep_is_boundless_and_synced_all_the_same(tmp_path):
    nested(tmp_path, DEEPEST + 10)
    with pytest.raises(OSError, match="too deeply"):
        list(walk_below(str(tmp_path)))
    assert disk_usage([str(tmp_path)], []) == BOUNDLESS
    fsync_below([str(tmp_path)])


def test_what_is_deep_but_not_too_deep_is_counted(tmp_path):
    nested(tmp_path, 60)
    assert 60 * ENTRY <= disk_usage([str(tmp_path)], []) < 61 * ENTRY + 1


def test_a_file_without_a_name_is_counted_once(tmp_path):
    before = unlinked_bytes([str(tmp_path)], [os.getpid()])  # the test runner keeps output in such a file
    with (tmp_path / "x").open("wb") as one, (tmp_path / "x").open("rb"):
        (tmp_path / "x").unlink()
        one.write(b"x" * (1 << 20))
        one.flush()
        assert 1 << 20 <= unlinked_bytes([str(tmp_path)], [os.getpid(), os.getpid()]) - before < 2 << 20
    assert unlinked_bytes([str(tmp_path)], [os.getpid()]) == before
