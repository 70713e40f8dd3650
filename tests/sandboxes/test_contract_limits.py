"""What every sandbox enforces: time, memory, processes, disk, log."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.sandboxes import local
from tuneloop.sandboxes.job_output import BoundedLog
from tuneloop.sandboxes.process_tree import children, descendants, proportional_bytes, resident_bytes
from tuneloop.sandboxes.safe_walk import disk_usage

HOG = "x = bytearray(60 << 20); import time; time.sleep(30)"
TWO_LEVELS = f"""
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        {HOG}
    {HOG}
{HOG}
"""


@pytest.fixture(params=["kernel", "supervisor"])
def counted(request, monkeypatch):
    """Who counts: cgroups where there are some, or the supervisor alone."""
    if request.param == "supervisor":
        path, rest = local.BOOT.split("; from", 1)
        none = "; import tuneloop.sandboxes.cgroups as c; c.find_base = lambda place='/': (1, {}); from"
        monkeypatch.setattr(local, "BOOT", path + none + rest)


def test_time(trial):
    done, _ = trial.run("import time; time.sleep(30)", limits={"seconds": 0.3})
    assert (done.reason, done.ok) == ("timeout", False)
    assert 0.3 <= done.seconds < 3


@pytest.mark.parametrize(("grace", "code"), [(0.2, -9), (20, 0)])
def test_when_its_time_is_over_a_job_has_its_grace(trial, grace, code):
    busy = (
        "import signal, sys, time\nsignal.signal(15, lambda *_: (time.sleep(0.5), open('saved', 'w'), sys.exit(0)))\n"
    )
    done, _ = trial.run(busy + "time.sleep(30)", limits={"seconds": 1, "grace": grace})
    assert (done.reason, done.code, (trial.work / "saved").exists()) == ("timeout", code, code == 0)


@pytest.mark.usefixtures("counted")
def test_memory_is_summed_over_two_levels_of_children(trial):
    done, _ = trial.run(TWO_LEVELS, limits={"memory": 150 << 20})
    assert (done.reason, done.code) == ("memory", -9)
    assert done.peak_memory >= 150 << 20


@pytest.mark.usefixtures("counted")
def test_memory_below_the_limit_is_left_alone(trial):
    done, _ = trial.run("x = bytearray(60 << 20); import time; time.sleep(0.4)", limits={"memory": 150 << 20})
    assert done.ok
    assert done.peak_memory > 60 << 20


def test_cpu_of_all_processes_is_told(trial):
    code = """
import os, time
pid = os.fork()
while time.process_time() < 0.3: pass
if pid: os.waitpid(pid, 0)
"""
    done, _ = trial.run(code)
    assert 0.6 <= done.cpu < 2


@pytest.mark.usefixtures("counted")
def test_pages_shared_after_a_fork_count_once(trial):
    code = """
import os, time
x = bytearray(60 << 20)
for _ in range(4):
    if os.fork() == 0: time.sleep(0.6); os._exit(0)
time.sleep(0.6)
"""
    done, _ = trial.run(code, limits={"memory": 150 << 20})
    assert done.ok


@pytest.mark.usefixtures("counted")
def test_processes(trial):
    code = "import os, time\nfor _ in range(20):\n    if os.fork() == 0: time.sleep(30)\ntime.sleep(30)"
    done, _ = trial.run(code, limits={"processes": 8})
    assert done.reason == "processes"


@pytest.mark.usefixtures("counted")
def test_as_many_processes_as_allowed(trial):
    code = "import os, time\nfor _ in range(3):\n    if os.fork() == 0: time.sleep(0.3); os._exit(0)\ntime.sleep(0.4)"
    done, _ = trial.run(code, limits={"processes": 4})
    assert done.ok


def test_disk(trial):
    code = "import os, time\nos.mkdir('d')\nwith open('d/big', 'wb') as f: f.write(b'x' * (8 << 20))\ntime.sleep(30)"
    done, _ = trial.run(code, limits={"disk": 4 << 20})
    assert done.reason == "disk"


def test_log_keeps_head_and_tail(trial):
    done, log = trial.run("for i in range(200000): print(i)", limits={"log": 5000})
    assert done.ok
    assert log.startswith("0\n1\n")
    assert log.endswith("199999\n")
    assert "bytes cut" in log
    assert len(log) <= 5000


def test_both_streams_are_in_order(trial):
    _, log = trial.run("import os\nos.write(1, b'one ')\nos.write(2, b'two ')\nos.write(1, b'three')")
    assert log == "one two three"


@given(st.lists(st.binary(min_size=1, max_size=700), max_size=60))
def test_log_says_exactly_what_it_cut(tmp_path_factory, chunks):
    path = tmp_path_factory.mktemp("log") / "log.txt"
    log = BoundedLog(str(path), 1024)
    for chunk in chunks:
        log.write(chunk)
    log.close()
    kept, written = path.read_bytes(), b"".join(chunks)
    assert len(kept) <= 1024
    if len(written) <= 1024:
        assert kept == written
        return
    head, mark, tail = kept[:512], kept[512:].split(b"]\n", 1)[0], kept[512:].split(b"]\n", 1)[1]
    assert written.startswith(head)
    assert written.endswith(tail)
    assert int(mark.split()[1]) == len(written) - 512 - len(tail)


def test_the_tree_of_a_process_that_is_gone_is_empty():
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    assert (children(gone), descendants(gone), resident_bytes(gone), proportional_bytes(gone)) == ([], [], 0, 0)


def test_used_counts_what_lies_below_folders(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b").write_bytes(b"x" * 100_000)
    with (tmp_path / "sparse").open("wb") as f:
        f.truncate(1 << 30)
    assert 1 << 30 <= disk_usage([str(tmp_path)], []) - 100_000 < (1 << 30) + 100_000


@pytest.mark.parametrize("code", ["import sys; sys.exit(7)", "import os; os.kill(os.getpid(), 11)"])
def test_exit_status_is_the_jobs_own(trial, code):
    done, _ = trial.run(code)
    assert done.code == (7 if "exit(7)" in code else -11)
    assert done.reason == "finished"
