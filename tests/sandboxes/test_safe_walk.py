"""A folder is measured and kept while its owner changes it: nobody is led elsewhere, nothing is hidden."""

import os
import threading

import pytest

from tuneloop.sandboxes.job_output import fsync_below
from tuneloop.sandboxes.safe_walk import BOUNDLESS, DEEPEST, disk_usage, inode_share, unlinked_bytes, walk_below


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
    assert disk_usage([str(tmp_path)], []) == inode_share(str(tmp_path))


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


def test_too_deep_tree_counts_as_over_limit_and_is_synced(tmp_path):
    nested(tmp_path, DEEPEST + 10)
    with pytest.raises(OSError, match="too deeply"):
        list(walk_below(str(tmp_path)))
    assert disk_usage([str(tmp_path)], []) == BOUNDLESS
    fsync_below([str(tmp_path)])


def test_what_is_deep_but_not_too_deep_is_counted(tmp_path):
    nested(tmp_path, 60)
    share = inode_share(str(tmp_path))
    assert 60 * share <= disk_usage([str(tmp_path)], []) < 61 * share + 1


def test_a_file_without_a_name_is_counted_once(tmp_path):
    before = unlinked_bytes([str(tmp_path)], [os.getpid()])  # the test runner keeps output in such a file
    with (tmp_path / "x").open("wb") as one, (tmp_path / "x").open("rb"):
        (tmp_path / "x").unlink()
        one.write(b"x" * (1 << 20))
        one.flush()
        assert 1 << 20 <= unlinked_bytes([str(tmp_path)], [os.getpid(), os.getpid()]) - before < 2 << 20
    assert unlinked_bytes([str(tmp_path)], [os.getpid()]) == before


def test_holes_count_as_what_a_reader_gets(tmp_path):
    (tmp_path / "data.json").touch()
    os.truncate(tmp_path / "data.json", 1 << 42)
    assert disk_usage([str(tmp_path)], []) >= 1 << 42
    before = unlinked_bytes([str(tmp_path)], [os.getpid()])  # the test runner keeps output in such a file
    with open(tmp_path / "gone", "w+b") as f:
        (tmp_path / "gone").unlink()
        f.truncate(1 << 41)
        assert unlinked_bytes([str(tmp_path)], [os.getpid()]) - before == 1 << 41


def test_names_count_as_their_share_of_the_disk(tmp_path):
    """As many empty files as the disk has inodes count as much as the whole disk."""
    found = os.statvfs(tmp_path)
    assert inode_share(str(tmp_path)) * found.f_files >= (found.f_blocks - 1) * found.f_frsize - found.f_files
