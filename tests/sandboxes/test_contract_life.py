"""How a job lives, ends and survives others, in every sandbox."""

import os
import signal
import subprocess
import sys
import threading
import time

from tests.waiting import until
from tuneloop.core.job import ALIVE, CLAIM, TICKET, Sandbox
from tuneloop.sandboxes import cluster
from tuneloop.sandboxes.cluster import OUTPUT, SUBMITTING
from tuneloop.sandboxes.jobs import wait
from tuneloop.sandboxes.process_tree import children

from .conftest import BEAT, Trial, supervisor_pid

SLEEP = "import time; time.sleep(30)"
CHILD_BEATS = BEAT + "if os.fork() == 0: beat('beat')\n"
STRAY_BEATS = BEAT + "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: beat('beat')\n    os._exit(0)\n"
WAIT_FOR_BEAT = "while not os.path.exists('beat'): time.sleep(0.01)\n"


def test_states(trial):
    folder = trial.root / "jobs/job"
    assert trial.sandbox.poll(folder).state == "absent"
    trial.start(SLEEP)
    assert trial.sandbox.poll(folder).state == "running"
    trial.sandbox.stop(folder)
    assert wait(trial.sandbox, folder).reason == "stopped"
    assert trial.sandbox.poll(folder).state == "over"
    left = {path.name for path in folder.iterdir()} - {TICKET, ALIVE, CLAIM, OUTPUT, SUBMITTING}  # of one on a node
    assert left == {"command.json", "lock", "log.txt", "stop", "exit.json"}


def test_children_end_with_the_job(trial):
    done, _ = trial.run(CHILD_BEATS + WAIT_FOR_BEAT)
    assert done.ok
    assert not trial.beats()


def test_strays_with_their_own_session_end_with_the_job(trial):
    done, _ = trial.run(STRAY_BEATS + WAIT_FOR_BEAT)
    assert done.ok
    assert not trial.beats()


def test_stop_lets_the_job_say_goodbye(trial):
    code = "import signal, sys, time\nsignal.signal(15, lambda *_: (open('bye', 'w'), sys.exit(0)))\n"
    folder = trial.start(code + "open('up', 'w')\ntime.sleep(30)")
    until((trial.work / "up").exists)
    trial.sandbox.stop(folder)
    done = wait(trial.sandbox, folder)
    assert (done.reason, done.code, done.ok) == ("stopped", 0, False)
    assert (trial.work / "bye").exists()


def test_stop_ends_a_deaf_job_after_the_grace(trial):
    folder = trial.start("import signal, time\nsignal.signal(15, signal.SIG_IGN)\nopen('up', 'w')\ntime.sleep(30)")
    until((trial.work / "up").exists)
    trial.sandbox.stop(folder, grace=0.2)
    done = wait(trial.sandbox, folder)
    assert (done.reason, done.code) == ("stopped", -9)
    assert done.seconds < 5


def test_sigterm_to_the_supervisor_stops_the_job(trial):
    folder = trial.start("print('up', flush=True)\n" + SLEEP)
    until(lambda: "up" in (folder / "log.txt").read_text())
    os.kill(supervisor_pid(folder), signal.SIGTERM)
    assert wait(trial.sandbox, folder).reason == "stopped"


def test_ten_starts_at_once_start_once(trial):
    code = "import time\nopen('started', 'a').write('x')\ntime.sleep(0.3)"
    barrier = threading.Barrier(10)

    def start():
        barrier.wait()
        trial.start(code)

    threads = [threading.Thread(target=start) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait(trial.sandbox, trial.root / "jobs/job", every=0.02)
    trial.start(code)
    assert (trial.work / "started").read_text() == "x"


def lost(sandbox: Sandbox, folder) -> bool:
    state = sandbox.poll(folder).state
    assert state in ("running", "lost")
    return state == "lost"


def test_killed_supervisor_ends_the_whole_job(trial, mortal):
    folder = trial.start(STRAY_BEATS + WAIT_FOR_BEAT + "open('up', 'w')\n" + SLEEP)
    until((trial.work / "up").exists)
    os.kill(supervisor_pid(folder), signal.SIGKILL)
    until(lambda: lost(trial.sandbox, folder))
    assert not trial.beats()


def test_a_killed_watcher_changes_nothing(trial):
    folder = trial.start("import time; time.sleep(0.5)")
    pid = supervisor_pid(folder)
    watcher = next(p for p in map(int, filter(str.isdecimal, os.listdir("/proc"))) if pid in children(p))
    os.kill(watcher, signal.SIGKILL)
    assert wait(trial.sandbox, folder).ok


def test_with_both_killed_stop_still_ends_what_holds_the_lock(trial, mortal):
    folder = trial.start(STRAY_BEATS + WAIT_FOR_BEAT + "open('up', 'w')\n" + SLEEP)
    until((trial.work / "up").exists)
    os.killpg(os.getpgid(supervisor_pid(folder)), signal.SIGKILL)
    time.sleep(0.1)
    trial.sandbox.stop(folder)
    until(lambda: lost(trial.sandbox, folder))
    assert not trial.beats()


ORCHESTRATOR = """
import os, sys
from pathlib import Path
from tuneloop.core.job import Command
from importlib import import_module
from tuneloop.core.settings import Settings
from tuneloop.sandboxes import cluster
from tuneloop.sandboxes.choose import open_executor
from tuneloop.sandboxes.jobs import launch
kind, executor, cluster.BOOT = sys.argv[1], *sys.argv[4:]
sandbox = getattr(import_module(f"tuneloop.sandboxes.{kind}"), f"{kind.title()}Sandbox")()
sandbox = open_executor(executor, sandbox, Settings())
launch(sandbox, Path(sys.argv[2]), 'train', Command.model_validate_json(sys.argv[3]))
os.kill(os.getpid(), 9)
"""


def test_a_job_outlives_its_killed_orchestrator(trial: Trial):
    jobs = trial.root / "jobs"
    command = trial.command("import time; time.sleep(0.5); print('whole')")
    executor = getattr(trial.sandbox, "executor", "local")
    argv = [sys.executable, "-c", ORCHESTRATOR, trial.sandbox.kind, str(jobs), command.model_dump_json()]
    killed = subprocess.run([*argv, executor, cluster.BOOT], check=False)
    assert killed.returncode == -9
    folder = jobs / "train.1"
    assert trial.sandbox.poll(folder).state == "running"
    assert wait(trial.sandbox, folder).ok
    assert (folder / "log.txt").read_text() == "whole\n"


def test_the_end_is_never_seen_half_written(trial):
    folder = trial.start("print('x')")
    seen: set[str] = set()
    while (status := trial.sandbox.poll(folder)).state == "running":
        seen.update(path.name for path in folder.glob("exit.json*"))
    assert status.state == "over"
    assert seen <= {"exit.json"}
    assert not list(folder.glob("*.part")) + list(folder.glob(".*.part"))
