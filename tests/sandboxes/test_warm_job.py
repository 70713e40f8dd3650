"""Jobs that a warm worker forks: the same as cold ones, confined by themselves, whoever is killed."""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.waiting import until
from tuneloop.core.job import Command
from tuneloop.sandboxes.jobs import launch, wait
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.sandboxes.process_tree import children, descendants
from tuneloop.sandboxes.warm_job import retire_worker

from .conftest import BEAT, KINDS, start_worker, supervisor_pid

FLAVOUR = "import sys; print(getattr(sys, 'flavour', 'cold'))"
UP_AND_SLEEP = BEAT + "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: beat('beat')\n    os._exit(0)\n"
UP_AND_SLEEP += "while not os.path.exists('beat'): time.sleep(0.01)\nopen('up', 'w')\ntime.sleep(60)"
ENDS = {
    "nothing": "pass",
    "text": "raise SystemExit('goodbye')",
    "number": "import sys; sys.exit(300)",
    "exception": "import json\ndef f(): json.loads('{')\nf()",
    "syntax": "a b",
    "handlers": "import atexit; atexit.register(print, 'last words'); print('first', end='')",
    "thread": "import threading, time; threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()",
    "signal": "import os; os.kill(os.getpid(), 6)",
    "names": "import sys; print(__name__, __file__, sys.argv, sys.path[0], sys.stdin.read())",
    "unflushed": "import os; print('lost'); os._exit(4)",
    "interrupt": "raise KeyboardInterrupt",
}


def test_a_job_is_forked_from_what_the_worker_imported(warm):
    assert warm.run(FLAVOUR)[1] == "warm\n"


@pytest.mark.parametrize("name", ENDS)
def test_a_job_ends_as_under_a_fresh_python(warm, name):
    command = warm.command(ENDS[name])
    ended = []
    for worker in ("", command.worker):
        folder = warm.root / "jobs" / f"job{bool(worker)}"
        warm.sandbox.start(folder, command.model_copy(update={"worker": worker}))
        done = wait(warm.sandbox, folder, every=0.01)
        log = (folder / "log.txt").read_text()
        ended.append((done.code, done.reason, log))
    assert ended[0] == ended[1]


def test_only_the_listed_folders_are_open(warm):
    for name in ("shown", "hidden", "other"):
        (warm.root / name).mkdir()
        (warm.root / name / "data").write_text("visible")
    code = f"""
import os, tempfile
def tried(do):
    try: return do() or 'did'
    except OSError as e: return type(e).__name__
root = {str(warm.root)!r}
print(tried(lambda: open(root + '/shown/data').read()))
for path in ('shown/x', 'hidden/x', 'x', 'scripts/x', 'own/x', 'jobs/job/x'): print(tried(lambda: open(root + '/' + path, 'w')))
for path in ('hidden/data', 'own/.', '.', 'workers/.'): print(tried(lambda: os.listdir(os.path.dirname(root + '/' + path))))
print(tried(lambda: open(root + '/hidden/data').read()), tried(lambda: os.rename(root + '/shown/data', 'data')))
print(tried(lambda: os.truncate(root + '/hidden/data', 0)))
print('may:', tried(lambda: open('x', 'w').close()), tried(lambda: tempfile.TemporaryFile().close()))
os.mkdir('a'); os.mkdir('b'); os.rename('x', 'a/x'); os.rename('a/x', 'b/x')
print(tried(lambda: os.kill(os.getppid(), 0)), tried(lambda: os.listdir(f'/proc/{{os.getppid()}}/root{warm.root!s}/hidden')))
"""
    done, log = warm.run(code, read=(str(warm.root / "shown"),))
    assert done.ok, log
    lines = log.splitlines()
    assert lines[0] == "visible"
    allowed, asked = {"PermissionError", "FileNotFoundError", "OSError"}, lines[1:11]
    assert set(asked) <= allowed
    assert set(lines[11].split()) <= allowed
    assert lines[12] in allowed
    assert lines[13] == "may: did did"
    assert lines[14] == "PermissionError PermissionError"
    assert (warm.root / "hidden/data").read_text() == "visible"


def test_scratch_of_a_job_goes_with_it(warm):
    done, log = warm.run("import tempfile; print(tempfile.mkdtemp())")
    assert done.ok
    assert not Path(log.strip()).parent.exists()


def test_constants_made_from_home_are_the_jobs_own(tmp_path):
    preload = "import os\nCACHE = os.path.expanduser('~/.cache/x')\nfrom pathlib import Path\nHOME = Path.home()\n"
    warm = start_worker(tmp_path, ProcessSandbox(), preload=preload)
    warm.work.mkdir()
    _, log = warm.run("import preload; print(preload.CACHE, preload.HOME)", env={"HOME": str(warm.work)})
    assert log.split() == [f"{warm.work}/.cache/x", str(warm.work)]
    warm.sandbox.stop(warm.worker, grace=0)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"env": {"OMP_NUM_THREADS": "7"}}, "the worker was started with another OMP_NUM_THREADS"),
        ({"worker": "/nonesuch/socket"}, "no worker listens: No such file"),
    ],
)
def test_job_starts_cold_where_no_worker_can_fork(warm, fields, why):
    warm.sandbox.start(warm.root / "jobs/job", warm.command(FLAVOUR).model_copy(update=fields))
    assert wait(warm.sandbox, warm.root / "jobs/job", every=0.01).ok
    log = (warm.root / "jobs/job/log.txt").read_text().splitlines()
    assert log[0].startswith(f"cold start: {why}")
    assert log[1] == "cold"


def test_a_path_that_the_worker_cannot_see_is_a_reason_to_start_cold(tmp_path):
    (tmp_path / "box").mkdir()
    (tmp_path / "box/work").mkdir()
    (tmp_path / "elsewhere").mkdir()
    warm = start_worker(tmp_path / "box", KINDS["bubblewrap"]())
    _, log = warm.run(FLAVOUR, read=(str(tmp_path / "elsewhere"),))
    assert log.splitlines() == [
        f"cold start: {tmp_path}/elsewhere is not visible to the worker: No such file or directory",
        "cold",
    ]
    warm.sandbox.stop(warm.worker, grace=0)


@pytest.mark.parametrize("fields", [{"generated": True}, {"network": True}, {"write": True}])
def test_model_code_and_networked_jobs_never_run_warm(tmp_path, fields):
    fields = {"write": (str(tmp_path),)} if "write" in fields else fields
    (tmp_path / "work").mkdir()
    warm = start_worker(tmp_path, ProcessSandbox(allow_generated=True))
    assert warm.run(FLAVOUR, **fields)[1] == "cold\n"
    warm.sandbox.stop(warm.worker, grace=0)


def fork_parent_of(warm) -> int:
    return children(warm.pid)[0]


def sleeping(warm) -> Path:
    folder: Path = warm.start(UP_AND_SLEEP)
    until((warm.work / "up").exists)
    return folder


def until_lost(warm, folder: Path) -> None:
    until(lambda: warm.sandbox.poll(folder).state == "lost")
    assert not warm.beats()
    assert not (folder / "exit.json").exists()


def test_a_killed_worker_loses_its_jobs_and_the_next_one_serves(warm):
    folder = sleeping(warm)
    os.kill(warm.pid, signal.SIGKILL)
    until_lost(warm, folder)
    (warm.work / "up").unlink()
    until(lambda: warm.sandbox.poll(warm.worker).state != "running")
    again = start_worker(warm.root, warm.sandbox)
    assert again.worker.name == "worker.2"
    jobs = warm.root / "jobs"
    second = launch(warm.sandbox, jobs, "job", again.command(FLAVOUR))
    assert wait(warm.sandbox, second, every=0.01).ok
    assert (second / "log.txt").read_text() == "warm\n"


def test_killed_fork_parent_loses_its_job_only(warm):
    folder = sleeping(warm)
    os.kill(fork_parent_of(warm), signal.SIGKILL)
    until_lost(warm, folder)
    assert warm.run(FLAVOUR, "next")[1] == "warm\n"


def test_a_killed_job_has_ended_by_that_signal(warm):
    folder = sleeping(warm)
    os.kill(children(fork_parent_of(warm))[0], signal.SIGKILL)
    done = wait(warm.sandbox, folder, every=0.01)
    assert (done.code, done.reason) == (-9, "finished")
    assert not warm.beats()


def test_killed_supervisors_end_the_job_and_leave_the_worker(warm):
    folder = sleeping(warm)
    os.killpg(os.getpgid(supervisor_pid(folder)), signal.SIGKILL)
    until_lost(warm, folder)
    assert warm.run(FLAVOUR, "next")[1] == "warm\n"
    until(lambda: not children(warm.pid))


def test_everything_killed_at_once_leaves_nothing(warm):
    folder = sleeping(warm)
    pids = [supervisor_pid(folder), supervisor_pid(warm.worker), warm.pid, *descendants(warm.pid)]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # the death of one is the death of others
            os.kill(pid, signal.SIGKILL)
    until_lost(warm, folder)
    until(lambda: warm.sandbox.poll(warm.worker).state != "running")


def test_a_worker_without_jobs_ends(tmp_path):
    warm = start_worker(tmp_path, ProcessSandbox(), idle=0.3)
    assert wait(warm.sandbox, warm.worker, every=0.02).code == 75
    assert start_worker(tmp_path, ProcessSandbox()).worker.name == "worker.2"
    retire_worker(str(warm.socket))


def test_a_retired_worker_finishes_its_job_and_takes_no_other(warm):
    folder = warm.start("import time; time.sleep(0.7); print('whole')")
    until(lambda: children(warm.pid))
    assert retire_worker(str(warm.socket))
    until(lambda: not warm.socket.exists())
    assert warm.run(FLAVOUR, "late")[1].endswith("cold\n")
    assert wait(warm.sandbox, folder).ok
    assert (folder / "log.txt").read_text() == "whole\n"
    assert wait(warm.sandbox, warm.worker).code == 75


def test_another_key_replaces_the_worker(tmp_path):
    warm = start_worker(tmp_path, ProcessSandbox())
    other = start_worker(tmp_path, ProcessSandbox(), idle=61)
    assert (warm.worker.name, other.worker.name) == ("worker.1", "worker.2")
    assert warm.sandbox.poll(warm.worker).state == "over"
    retire_worker(str(other.socket))


def test_a_worker_with_threads_refuses_to_serve(tmp_path):
    warm = start_worker(
        tmp_path,
        ProcessSandbox(),
        preload="import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
    )
    assert wait(warm.sandbox, warm.worker).code == 1
    assert "2 threads after the imports" in (warm.worker / "log.txt").read_text()


def test_a_forked_job_is_there_at_once(warm):
    began = time.monotonic()
    for n in range(5):
        assert warm.run("pass", f"job{n}")[0].ok
    assert time.monotonic() - began < 5


def test_long_places_are_no_obstacle(tmp_path):
    root = tmp_path / ("x" * 100) / ("y" * 100)
    root.mkdir(parents=True)
    (root / "work").mkdir()
    warm = start_worker(root, ProcessSandbox())
    assert warm.run(FLAVOUR)[1] == "warm\n"
    warm.sandbox.stop(warm.worker, grace=0)


def test_the_cold_form_is_the_same_job(tmp_path):
    (tmp_path / "work").mkdir()
    command = Command(argv=(sys.executable, "-c", "pass"), cwd=str(tmp_path / "work"), write=(str(tmp_path / "work"),))
    one = launch(ProcessSandbox(), tmp_path / "jobs", "job", command)
    wait(ProcessSandbox(), one)
    assert launch(ProcessSandbox(), tmp_path / "jobs", "job", command.model_copy(update={"worker": "/x"})) == one
