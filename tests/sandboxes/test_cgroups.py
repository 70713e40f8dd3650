"""Limits that the kernel enforces: at once, on everything that is memory, with nothing left over."""

import os
import signal

import pytest

from tests.waiting import until
from tuneloop.sandboxes import cgroups, local
from tuneloop.sandboxes.cgroups import LEAF, PREFIX, find_base
from tuneloop.sandboxes.jobs import wait

from .conftest import KINDS, WARM, Trial, open_trial, supervisor_pid

PARENTS = find_base()[1]
SLEEP = "open('up', 'w'); import time; time.sleep(60)"
HELD = {
    "pages": "x = bytearray(1 << 30)",
    "a file in memory": "f = os.memfd_create('x')\nfor _ in range(1000): os.write(f, b'x' * (1 << 20))",
    "shared memory": "f = open('/dev/shm/tuneloop-test', 'wb'); os.unlink(f.name)\nfor _ in range(900): f.write(b'x' * (1 << 20))",
    "pages of a child": "if os.fork() == 0: x = bytearray(1 << 30)\nos.wait(); time.sleep(30)",
}


@pytest.fixture(params=["process", "bubblewrap", *(WARM + kind for kind in KINDS)])
def trial(request, tmp_path):
    """Every sandbox but a container of its own, whose daemon makes the group."""
    yield from open_trial(request.param, tmp_path, request)


@pytest.fixture(autouse=True)
def allowed():
    if set(PARENTS) != {"memory", "pids"}:
        pytest.skip("this user may make no cgroups here")


def groups(pid: int) -> list[str]:
    return [parent for parent in PARENTS.values() if os.path.exists(f"{parent}/{PREFIX}{pid}")]


@pytest.mark.parametrize("what", HELD)
def test_no_job_gets_more_memory_than_its_limit(trial, what):
    done, _ = trial.run(f"import os, time\n{HELD[what]}\ntime.sleep(30)", limits={"memory": 80 << 20})
    assert (done.reason, done.code) == ("memory", -9)
    assert done.peak_memory < 200 << 20


def test_fork_bomb_is_limited(trial):
    folder = trial.start(
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", limits={"processes": 16}
    )
    done = wait(trial.sandbox, folder, every=0.01)
    assert done.reason == "processes"


def test_threads_count_beyond_what_a_job_may_need(trial, monkeypatch):
    path, rest = local.BOOT.split("; from", 1)
    few = "; import tuneloop.sandboxes.cgroups as c; c.TASKS = 20; from"
    monkeypatch.setattr(local, "BOOT", path + few + rest)
    code = "import threading, time\nfor _ in range(60): threading.Thread(target=time.sleep, args=(30,)).start()"
    assert trial.run(code, limits={"processes": 4})[0].reason == "processes"


def test_a_group_goes_with_its_job(trial):
    folder = trial.start(SLEEP, limits={"memory": 1 << 30, "processes": 50})
    until((trial.work / "up").exists)
    pid = supervisor_pid(folder)
    assert len(groups(pid)) == 2
    trial.sandbox.stop(folder, grace=0)
    assert wait(trial.sandbox, folder, every=0.01).reason == "stopped"
    assert groups(pid) == []


def test_a_job_without_limits_has_none(trial):
    folder = trial.start(SLEEP)
    until((trial.work / "up").exists)
    assert groups(supervisor_pid(folder)) == []
    trial.sandbox.stop(folder, grace=0)


def test_cgroup_of_killed_supervisor_is_removed(trial):
    folder = trial.start(SLEEP, limits={"memory": 1 << 30})
    until((trial.work / "up").exists)
    pid = supervisor_pid(folder)
    assert groups(pid)
    os.kill(pid, signal.SIGKILL)
    until(lambda: groups(pid) == [])


def test_what_both_killed_leave_is_removed_by_the_next(trial: Trial):
    folder = trial.start(SLEEP, limits={"memory": 1 << 30})
    until((trial.work / "up").exists)
    pid = supervisor_pid(folder)
    os.killpg(os.getpgid(pid), signal.SIGKILL)
    until(lambda: trial.sandbox.poll(folder).state == "lost")

    def cleared() -> bool:
        trial.run("pass", f"next{len(list((trial.root / 'jobs').iterdir()))}", limits={"memory": 1 << 30})
        return groups(pid) == []

    until(cleared)


def delegated_tree(root, path: str, controllers: str = "cpu memory pids"):
    """Folders that stand for a hierarchy of version 2, which a kernel has only where version 1 has left it the controllers."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(f"0::{path}\n")
    (root / "proc/mounts").write_text(f"cgroup2 {root}/cg cgroup2 rw,nosuid 0 0\n")
    base = root / f"cg{path}"
    base.mkdir(parents=True)
    for name, text in {"controllers": controllers, "subtree_control": "", "procs": "11\n12\n"}.items():
        (base / f"cgroup.{name}").write_text(text)
    leaf = base / LEAF
    leaf.mkdir()
    (leaf / "cgroup.procs").write_text("")
    return base


def give_away(base) -> None:
    try:
        os.setxattr(base, "user.delegate", b"1")
    except OSError as e:
        pytest.skip(f"no extended attributes here: {e}")


def test_in_a_delegated_tree_our_processes_step_aside(tmp_path):
    base = delegated_tree(tmp_path, "/user.slice/ours.scope")
    give_away(base)
    assert find_base(f"{tmp_path}/") == (2, {"memory": str(base), "pids": str(base)})
    assert (base / "cgroup.subtree_control").read_text() == "+memory +pids"
    assert (base / LEAF / "cgroup.procs").read_text() == "12"  # the kernel would have taken each
    (base / "cgroup.subtree_control").write_text("memory pids")
    (tmp_path / "proc/self/cgroup").write_text(f"0::/user.slice/ours.scope/{LEAF}\n")
    assert find_base(f"{tmp_path}/")[1]["pids"] == str(base)


def test_a_tree_that_is_not_ours_is_left_alone(tmp_path):
    base = delegated_tree(tmp_path, "/user.slice/session.scope")
    assert find_base(f"{tmp_path}/") == (2, {})
    assert (base / "cgroup.subtree_control").read_text() == ""


def test_controllers_that_are_not_there_are_not_asked_for(tmp_path):
    give_away(delegated_tree(tmp_path, "/x", controllers="cpu"))
    assert find_base(f"{tmp_path}/") == (2, {})


def test_without_cgroups_there_is_none(tmp_path):
    (tmp_path / "proc").mkdir()
    assert find_base(f"{tmp_path}/") == (2, {})


def test_version_two_speaks_its_own_words(tmp_path):
    base = delegated_tree(tmp_path, "/x")
    give_away(base)
    group = base / f"{PREFIX}{os.getpid()}"
    group.mkdir()
    for name in ("memory.max", "memory.swap.max", "pids.max", "cgroup.procs"):
        (group / name).write_text("")
    ours = cgroups.CgroupLimits(100, 5, f"{tmp_path}/")
    ours.add(7)
    said = {path.name: path.read_text() for path in group.iterdir()}
    assert said == {
        "memory.max": "100",
        "memory.swap.max": "0",
        "pids.max": str(5 + cgroups.TASKS),
        "cgroup.procs": "7",
    }
    (group / "memory.events").write_text("low 0\noom 1\noom_kill 1\noom_group_kill 0\n")
    assert ours.exceeded_limit() == "memory"
