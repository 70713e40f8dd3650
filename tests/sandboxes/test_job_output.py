"""What a job wrote is on disk before its end is told; a full disk delays that or loses the job, never halves it."""

import os
import shutil
import subprocess
import sys
import threading
import time

import pytest

from tests.waiting import until
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.job import Command
from tuneloop.sandboxes.job_output import fsync_below
from tuneloop.sandboxes.jobs import wait
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.sandboxes.safe_walk import walk_below

BOX = ProcessSandbox()
TRACE = "fsync,rename,renameat,renameat2"


@pytest.fixture
def small(tmp_path):
    """A file system of 256 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def command(work, shell):
    work.mkdir(exist_ok=True)
    return Command(argv=("/bin/sh", "-c", shell), cwd=str(work), write=(str(work),))


def fill(place):
    with (place / "filler").open("wb", buffering=0) as f:
        try:
            while f.write(b"x" * 4096):
                pass
        except OSError:
            return


def test_everything_below_is_found_but_what_links_lead_to(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_text("x")
    (tmp_path / "a/link").symlink_to("/etc")
    os.mkfifo(tmp_path / "a/pipe")
    assert {entry.name for _, entry in walk_below(str(tmp_path))} == {"a", "b", "file", "link", "pipe"}
    fsync_below([str(tmp_path), str(tmp_path / "gone")])


def test_results_are_synced_before_the_end_is_told(tmp_path):
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    trace = tmp_path / "trace"
    work = tmp_path / "work"
    work.mkdir()
    code = (
        "import sys; from pathlib import Path\nfrom tests.sandboxes.test_job_output import BOX, command\n"
        "from tuneloop.sandboxes.jobs import wait\n"
        "BOX.start(Path(sys.argv[1]), command(Path(sys.argv[2]), 'mkdir d; echo x > d/result'))\n"
        "wait(BOX, Path(sys.argv[1]))"
    )
    argv = ["strace", "-f", "-y", "-e", TRACE, "-o", trace, sys.executable, "-c", code, tmp_path / "job", work]
    subprocess.run(argv, check=True, env={**os.environ, "PYTHONPATH": os.getcwd()})
    lines = trace.read_text().splitlines()
    told = next(i for i, line in enumerate(lines) if "rename" in line and '/exit.json"' in line)
    synced = "\n".join(line for line in lines[:told] if "fsync" in line)
    for path in ("d/result", "d", ""):
        assert f"{work}/{path}".rstrip("/") + ">" in synced


def test_a_disk_that_is_full_at_the_end_delays_the_end(small, tmp_path):
    BOX.start(small / "job", command(tmp_path / "work", "while [ ! -e go ]; do sleep 0.02; done"))
    fill(small)
    (tmp_path / "work/go").touch()
    time.sleep(0.5)
    assert BOX.poll(small / "job").state == "running"
    assert not (small / "job/exit.json").exists()
    until(lambda: {path.name for path in (small / "job").iterdir()} == {"command.json", "lock", "log.txt"})
    (small / "filler").unlink()
    assert wait(BOX, small / "job").ok


def test_a_disk_that_is_full_at_the_start_is_the_worlds_fault(small, tmp_path):
    fill(small)
    with pytest.raises(InfrastructureError, match="No space left"):
        BOX.start(small / "job", command(tmp_path / "work", "true"))
    assert BOX.poll(small / "job").state == "absent"
    (small / "filler").unlink()
    BOX.start(small / "job", command(tmp_path / "work", "true"))
    assert wait(BOX, small / "job").ok


def test_a_full_disk_costs_log_lines_not_the_job(small, tmp_path):
    BOX.start(
        small / "job", command(tmp_path / "work", "while [ ! -e go ]; do sleep 0.02; done; seq 1 100000; touch done")
    )
    fill(small)
    (tmp_path / "work/go").touch()
    until((tmp_path / "work/done").exists)
    threading.Timer(0.3, (small / "filler").unlink).start()
    assert wait(BOX, small / "job").ok
