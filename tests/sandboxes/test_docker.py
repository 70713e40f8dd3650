"""Containers: they outlive their supervisor, carry no secret, leave nothing over."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.waiting import until
from tuneloop.core.errors import InfrastructureError
from tuneloop.sandboxes import container_init
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox
from tuneloop.sandboxes.container import container_name
from tuneloop.sandboxes.container_supervisor import create_pipes, release_container
from tuneloop.sandboxes.docker import DockerSandbox, plan_container
from tuneloop.sandboxes.docker_daemon import find_daemon, is_orphan, remove_orphans
from tuneloop.sandboxes.job_user import check_readable, chown_tree
from tuneloop.sandboxes.jobs import wait
from tuneloop.sandboxes.local import environment
from tuneloop.sandboxes.process_tree import children

from .conftest import BEAT, Trial, open_trial, supervisor_pid

COUNT = "import time\nfor n in range({n}): print(n, flush=True); time.sleep(0.01)\nprint('whole')"
UP_AND_BEAT = BEAT + "open('up', 'w')\nbeat('beat')"


@pytest.fixture
def trial(tmp_path, request, docker_host) -> Iterator[Trial]:
    yield from open_trial("docker", tmp_path, request)


def state(folder):
    return find_daemon().daemon.state(container_name(folder))


def kill_supervisors(folder) -> None:
    """The supervisor and the watcher above it."""
    os.killpg(os.getpgid(supervisor_pid(folder)), signal.SIGKILL)


def first_process(folder) -> int:
    place = folder / "pipes/pid"
    return int(until(lambda: place.exists() and place.read_text()).split()[0])


@pytest.mark.parametrize("watcher_too", [False, True])
def test_container_with_killed_supervisor_loses_no_line(trial, watcher_too):
    folder = trial.start(COUNT.format(n=100))
    until(lambda: "\n5\n" in (folder / "log.txt").read_text())
    old = supervisor_pid(folder)
    kill_supervisors(folder) if watcher_too else os.kill(old, signal.SIGKILL)
    until(lambda: trial.sandbox.poll(folder).state == "running" and supervisor_pid(folder) != old)
    assert wait(trial.sandbox, folder, every=0.02).ok
    assert (folder / "log.txt").read_text().split() == [*map(str, range(100)), "whole"]
    until(lambda: state(folder) is None)


def test_container_that_ended_unwatched_is_reported(trial):
    folder = trial.start("import time; open('up', 'w'); time.sleep(0.3); print('whole'); raise SystemExit(7)")
    until((trial.work / "up").exists)
    pid = first_process(folder)
    kill_supervisors(folder)
    until(lambda: not children(pid))
    done = wait(trial.sandbox, folder, every=0.02)
    assert (done.code, done.reason) == (7, "finished")
    assert (folder / "log.txt").read_text() == "whole\n"
    assert done.cpu > 0


def test_time_limit_survives_killed_supervisors(trial):
    folder = trial.start(UP_AND_BEAT, limits={"seconds": 1.5})
    until((trial.work / "up").exists)
    kill_supervisors(folder)
    done = wait(trial.sandbox, folder, every=0.02)
    assert done.reason == "timeout"
    assert done.seconds < 4
    assert not trial.beats()


def test_stop_reaches_container_without_supervisor(trial):
    folder = trial.start(UP_AND_BEAT)
    until((trial.work / "up").exists)
    kill_supervisors(folder)
    until(lambda: not os.path.exists(f"/proc/{supervisor_pid(folder)}"))
    trial.sandbox.stop(folder, grace=0.1)
    assert wait(trial.sandbox, folder, every=0.02).reason == "stopped"
    assert not trial.beats()


def test_a_killed_container_is_lost_and_leaves_nothing(trial):
    folder = trial.start(UP_AND_BEAT)
    until((trial.work / "up").exists)
    find_daemon().daemon.remove(container_name(folder))
    with pytest.raises(InfrastructureError, match="lost"):
        wait(trial.sandbox, folder, every=0.02)
    assert "was killed" in (folder / "log.txt").read_text()
    assert {path.name for path in folder.iterdir()} == {"command.json", "lock", "log.txt"}


def test_created_container_is_started_by_next_supervisor(trial):
    folder, command = trial.root / "jobs/job", trial.command("open('started', 'a').write('x')")
    folder.mkdir(parents=True)
    (folder / "command.json").write_text(command.model_dump_json())
    plan = plan_container(folder, command).container
    assert plan is not None
    told = {"argv": command.argv, "cwd": command.cwd, "env": environment(command), "filter": ""}
    create_pipes(str(folder / "pipes"), told, plan["user"])
    find_daemon().daemon.create(plan["name"], plan["config"])
    assert wait(trial.sandbox, folder, every=0.02).ok
    assert (trial.work / "started").read_text() == "x"
    until(lambda: state(folder) is None)


def test_pipes_without_a_container_are_a_lost_job(trial):
    folder = trial.start(UP_AND_BEAT)
    until((trial.work / "up").exists)
    kill_supervisors(folder)
    find_daemon().daemon.remove(container_name(folder))
    (folder / "pipes/pid").unlink(missing_ok=True)  # a supervisor that was killed at once wrote none
    until(lambda: trial.sandbox.poll(folder).state == "lost")
    until(lambda: not (folder / "pipes").exists())
    assert trial.sandbox.poll(folder).state == "lost"


def test_container_lost_by_daemon_ends_with_job(trial):
    folder = trial.start(UP_AND_BEAT)
    until((trial.work / "up").exists)
    pid = first_process(folder)
    kill_supervisors(folder)  # and nobody asks the daemon to remove it
    release_container(str(folder / "pipes"))
    assert not os.path.exists(f"/proc/{pid}/exe")
    assert not trial.beats()


def test_new_supervisor_waits_for_container_of_killed_one(trial):
    folder = trial.start(UP_AND_BEAT)
    until((trial.work / "up").exists)
    kill_supervisors(folder)
    (folder / "pipes/log").unlink()
    until(lambda: trial.sandbox.poll(folder).state == "lost" and not (folder / "pipes").exists())
    assert not trial.beats()
    until(lambda: state(folder) is None)


def test_a_job_never_runs_in_two_containers(trial):
    folder = trial.start("open('started', 'a').write('x'); import time; time.sleep(2)")
    until((trial.work / "started").exists)
    plan = plan_container(folder, trial.command("")).container
    assert plan is not None
    daemon = find_daemon().daemon
    daemon.create(
        "tuneloop-second", {**plan["config"], "HostConfig": {**plan["config"]["HostConfig"], "AutoRemove": False}}
    )
    try:
        daemon.start("tuneloop-second")
        second = until(lambda: (found := daemon.state("tuneloop-second") or {}).get("Status") == "exited" and found)
        assert second["ExitCode"] == 1
    finally:
        daemon.remove("tuneloop-second")
    assert wait(trial.sandbox, folder, every=0.02).ok
    assert (trial.work / "started").read_text() == "x"


def test_memory_bombs_hit_the_limit(trial):
    done, _ = trial.run("x = [bytearray(64 << 20) for _ in range(64)]", limits={"memory": 100 << 20})
    assert (done.reason, done.code) == ("memory", -9)
    assert done.peak_memory >= 100 << 20


def test_jobs_run_as_unprivileged_user(trial):
    code = "import os; print(os.getuid(), [l for l in open('/proc/self/status') if l[:4] in ('CapE', 'CapB', 'NoNe', 'Secc')])"
    done, log = trial.run(code)
    assert done.ok
    assert int(log.split()[0]) == (os.geteuid() or 10001)
    assert "CapEff:\\t0000000000000000" in log
    assert "CapBnd:\\t0000000000000000" in log
    assert "NoNewPrivs:\\t1" in log
    assert "Seccomp:\\t2" in log


def test_what_the_daemon_knows_of_a_container_holds_no_secret(trial):
    folder = trial.start("import time; time.sleep(30)", env={"TOKEN": "canary-77"})
    first_process(folder)
    told = find_daemon().daemon.ask("GET", f"/containers/{container_name(folder)}/json")
    assert "canary-77" not in json.dumps(told)
    trial.sandbox.stop(folder, 0)
    wait(trial.sandbox, folder)


def test_sweep_removes_orphaned_containers_only(trial):
    kept, gone = (trial.start(UP_AND_BEAT, name) for name in ("kept", "gone"))
    pids = [first_process(folder) for folder in (kept, gone)]
    kill_supervisors(gone)
    until(lambda: not os.path.exists(f"/proc/{supervisor_pid(gone)}"))
    gone.rename(trial.root / "elsewhere")
    assert is_orphan(gone)
    assert not is_orphan(kept)
    assert remove_orphans(find_daemon())
    until(lambda: not os.path.exists(f"/proc/{pids[1]}"))
    assert state(kept)["Running"]
    trial.sandbox.stop(kept, 0)
    assert wait(trial.sandbox, kept).reason == "stopped"


def test_folders_handed_over_bend_to_no_link(tmp_path):
    (tmp_path / "work/deep").mkdir(parents=True)
    (tmp_path / "work/deep/file").write_text("x")
    (tmp_path / "outside").write_text("x")
    (tmp_path / "work/link").symlink_to(tmp_path / "outside")
    (tmp_path / "work/name").hardlink_to(tmp_path / "outside")
    chown_tree([str(tmp_path / "work")], (10001, 10001))
    owners = {path.name: path.lstat().st_uid for path in tmp_path.rglob("*")}
    ours = os.geteuid()
    assert owners["outside"] == owners["name"] == ours
    assert {owners[name] for name in ("work", "deep", "file", "link")} == {ours or 10001}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's jobs are of another user")
def test_bubblewrap_goes_on_where_docker_was(trial):
    assert trial.run("open('made', 'w').write('x')")[0].ok
    done, log = Trial(BubblewrapSandbox(), trial.root).run("open('made', 'a').write('x'); open('new', 'w')", "next")
    assert done.ok, log


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's jobs are of another user")
def test_what_jobs_may_not_read_is_told_with_the_cure(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/weights").touch(0o600)
    with pytest.raises(InfrastructureError, match=r"weights is closed to jobs.*chmod -R a\+rX"):
        check_readable([str(tmp_path / "model")], (10001, 10001))
    (tmp_path / "model/weights").chmod(0o644)
    check_readable([str(tmp_path / "model")], (10001, 10001))


def test_rootless_daemon_maps_root_to_the_user(tmp_path):
    """As a user who is not root: such a daemon gives the user's own files to its containers' root."""
    (tmp_path / "pipes").mkdir()
    (tmp_path / "secret").touch(0o600)
    if os.geteuid() == 0:
        for path in (tmp_path, tmp_path / "pipes", tmp_path / "secret"):
            os.chown(path, 10001, 10001)
    if (pid := os.fork()) == 0:
        code = 1
        try:
            os.chdir(tmp_path)
            if os.geteuid() == 0:
                os.setuid(10001)
            check_readable(["secret"], (0, 0))
            create_pipes("pipes", {}, (0, 0))
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert (tmp_path / "pipes/report").is_fifo()


SAYS = """
import os, time
report = os.open("/.tuneloop/job/report", os.O_WRONLY)
"""
NAN = b'{"code": 3, "peak": 1, "cpu": NaN, "refusal": ""}\n'


@pytest.mark.parametrize("lie", [NAN, NAN.replace(b"NaN", b"1e999"), b"[" * 50000 + b"\n", NAN.strip()])
def test_job_cannot_fake_its_end(trial, lie):
    done, log = trial.run(f"{SAYS}os.write(report, {lie!r}); time.sleep(0.3); print('whole'); raise SystemExit(7)")
    assert (done.code, done.reason) == (7, "finished")
    assert done.cpu < 30
    assert log == "whole\n"


def test_a_job_that_talks_without_end_ends(trial):
    code = f"{SAYS}for n in range(100): os.write(report, b'x' * 50000)"
    done, _ = trial.run(code)
    assert (done.code, done.reason) == (0, "finished")


def test_start_says_why_it_cannot(trial, monkeypatch):
    monkeypatch.setattr(
        "tuneloop.sandboxes.docker.find_daemon", lambda: (_ for _ in ()).throw(InfrastructureError("away"))
    )
    with pytest.raises(InfrastructureError, match="away"):
        DockerSandbox().start(trial.root / "jobs/job", trial.command("pass"))


def test_the_first_process_of_a_container_is_nothing_else(tmp_path):
    refused = subprocess.run([sys.executable, container_init.__file__, str(tmp_path)], capture_output=True, check=False)
    assert refused.returncode == 1
    assert b"right is the first process of a container" in refused.stderr


def test_our_own_filter_is_above_the_daemons(trial):
    code = """
import ctypes, errno, socket
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(425, 1, 0), errno.errorcode[ctypes.get_errno()])
try: socket.socket(40, socket.SOCK_STREAM)
except OSError as e: print(errno.errorcode[e.errno])
print([l.split()[1] for l in open('/proc/self/status') if l.startswith('Seccomp_filters')])
"""
    assert trial.run(code)[1].splitlines() == ["-1 ENOSYS", "EAFNOSUPPORT", "['2']"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands over")
def test_endlessly_nested_folders_are_an_infrastructure_error(tmp_path):
    handle = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
    with pytest.raises(InfrastructureError, match="nested too deeply"):
        chown_tree([str(tmp_path)], (10001, 10001))
    subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)
