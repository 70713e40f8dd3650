"""What a job cannot reach, for the sandboxes that claim it."""

import os
import socket
import sys
from pathlib import Path

import pytest

from tests.ray_cluster import DASHBOARD
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.job import Command
from tuneloop.sandboxes import local
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox
from tuneloop.sandboxes.jobs import wait
from tuneloop.sandboxes.node_runner import GIVEN
from tuneloop.sandboxes.process import ProcessSandbox

from .conftest import NodeTrial, Trial, lacks, supervisor_pid

CANARY = "canary-5d1f0c"
CONNECT = "import socket; socket.create_connection(('127.0.0.1', {port}), 3); print('connected')"


@pytest.fixture
def trial(cold):
    """What a warm job cannot reach is in test_warm.py: its confinement is another."""
    return cold


def test_environment_is_exactly_what_is_listed(trial, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", CANARY)
    _, log = trial.run("import os; print(sorted(os.environ))", env={"MINE": "1"})
    names = set(eval(log, {"__builtins__": {}})) - {"PWD", "LC_CTYPE"}
    if isinstance(trial, NodeTrial):
        names -= set(GIVEN)
    scratch = {"TMPDIR"} if lacks(trial, "own /tmp") else set()
    assert names == {"HOME", "LANG", "LOGNAME", "MINE", "PATH", "USER"} | scratch


def test_no_secret_of_the_parent_is_left_anywhere(trial, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", CANARY)
    folder = trial.start("import time; print('up', flush=True); time.sleep(30)")
    assert Path(f"/proc/{supervisor_pid(folder)}/environ").read_bytes() == b""
    assert not any(CANARY in path.read_text() for path in folder.rglob("*") if path.is_file())
    trial.sandbox.stop(folder, 0)


def test_no_secret_in_proc(trial, needs, monkeypatch):
    needs("secrets")
    monkeypatch.setenv("SECRET_TOKEN", CANARY)
    code = """
import glob, os
for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline'):
    try: print(path, open(path, 'rb').read())
    except OSError: print(path, 'is closed')
print(os.listdir('/proc/self/fd'))
"""
    done, log = trial.run(code)
    assert done.ok
    assert "/environ" in log
    assert CANARY not in log


def test_lock_holder_is_out_of_the_jobs_reach(trial, needs):
    needs("files")
    holder, files = "1", "os.listdir(place + '/fd')"
    if lacks(trial, "own /proc"):
        holder, files = "os.getppid()", "[os.readlink(f'{place}/fd/{n}') for n in os.listdir(place + '/fd')]"
    code = f"""
import os
place = f"/proc/{{{holder}}}"
for name in ("fd", "mem", "environ"):
    try: print({files} if name == "fd" else open(f"{{place}}/{{name}}", "r+b"))
    except OSError as e: print(name, "is closed")
"""
    assert trial.run(code)[1] == "fd is closed\nmem is closed\nenviron is closed\n"


def test_no_network(trial, needs):
    needs("network")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if isinstance(trial, NodeTrial) and trial.sandbox.executor == "ray":
            port = DASHBOARD  # the network of its nodes is another
        done, log = trial.run(CONNECT.format(port=port), "cut")
        assert not done.ok
        assert any(word in log for word in ("ConnectionRefused", "unreachable", "Address family not supported"))
        done, _ = trial.run(CONNECT.format(port=port), "granted", network=True)
        assert done.ok


def test_a_job_with_a_network_has_no_abstract_sockets_of_the_machine(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    trial = Trial(BubblewrapSandbox(), tmp_path)
    name = f"\0tuneloop-{os.getpid()}"
    code = f"import socket; socket.socket(socket.AF_UNIX).connect({name!r}); print('connected')"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        assert "PermissionError" in trial.run(code, "held", network=True)[1]
        path, rest = local.BOOT.split("; from", 1)
        free = "; import tuneloop.sandboxes.spawn as s; s.restrict_scope = lambda: None; from"
        monkeypatch.setattr(local, "BOOT", path + free + rest)
        assert trial.run(code, "free", network=True)[1] == "connected\n"


def test_files_outside_cannot_be_read_or_written(trial, needs):
    needs("files")
    (trial.root / "secret").write_text(CANARY)
    (trial.root / "shown").mkdir()
    (trial.root / "shown/data").write_text("visible")
    outside = f"/tmp/tuneloop-{os.getpid()}"
    code = f"""
import os
def tried(do):
    try: return do() or 'did'
    except OSError as e: return type(e).__name__
print(tried(lambda: open({str(trial.root / "secret")!r}).read()))
print(tried(lambda: open({str(trial.root / "shown/data")!r}).read()))
for path in ({str(trial.root / "shown/x")!r}, '/x', '/etc/x', '/usr/x', '/dev/x', {sys.prefix!r} + '/x', {outside!r}, 'x'):
    print(path, tried(lambda: open(path, 'w').close()))
print(tried(lambda: os.listdir('/home')), tried(lambda: os.listdir('/root/.ssh')))
"""
    done, log = trial.run(code, read=(str(trial.root / "shown"),))
    assert done.ok
    lines = log.splitlines()
    assert lines[:2] == ["PermissionError" if lacks(trial, "hidden names") else "FileNotFoundError", "visible"]
    outcomes = [line.split()[-1] for line in lines[2:10]]
    assert "did" not in outcomes[:6]
    assert outcomes[6:] == ["PermissionError" if lacks(trial, "own /tmp") else "did", "did"]
    assert not Path(outside).exists()


def test_nothing_of_the_kernel_is_writable(trial, needs):
    needs("files")
    code = """
import os
for root, folders, files in os.walk('/proc'):
    if root == '/proc': folders[:] = [f for f in folders if not f.isdigit() and f not in ('self', 'thread-self')]
    for name in files:
        path = root + '/' + name
        try: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError: continue
        if os.stat(path).st_mode & 0o002 == 0: print(path)  # /proc/pressure is for everybody
print('core_pattern' in os.listdir('/proc/sys/kernel'))
"""
    done, log = trial.run(code)
    assert done.ok
    assert log.strip() == "True"


def test_a_job_does_not_see_its_own_folder(trial, needs):
    needs("files")
    asks = "open" if lacks(trial, "hidden names") else "os.stat"
    code = f"""
import os
try: print({asks}({str(trial.root / "jobs/job/command.json")!r}))
except OSError: print("hidden")
"""
    assert trial.run(code)[1].strip() == "hidden"


def test_nor_when_a_folder_around_it_is_writable(trial, needs):
    needs("files")
    code = f"""
import os
try: print(os.listdir({str(trial.root / "jobs/in")!r}))
except PermissionError: print([])
open({str(trial.root / "y")!r}, 'w')
"""
    if lacks(trial, "new files around closed ones"):
        (trial.root / "y").touch()
    done, log = trial.run(code, "in", write=(str(trial.root),))
    assert done.ok
    assert log.strip() == "[]"
    assert (trial.root / "y").exists()


def test_the_lock_is_not_in_the_jobs_hands(trial, needs):
    needs("files")
    code = """
import os
for n in os.listdir('/proc/self/fd'):
    if int(n) > 2 and os.path.exists(f'/proc/self/fd/{n}'): print(os.readlink(f'/proc/self/fd/{n}'))
print('looked')
"""
    assert trial.run(code)[1] == "looked\n"


def test_links_lead_where_they_lead_outside(trial):
    (trial.root / "real").mkdir()
    (trial.root / "real/data").write_text("found")
    (trial.root / "link").symlink_to("real")
    _, log = trial.run(f"print(open({str(trial.root / 'link/data')!r}).read())", read=(str(trial.root / "link"),))
    assert log.strip() == "found"


def test_listed_paths_inside_listed_paths(trial, needs):
    needs("files")
    (trial.work / "kept").mkdir()
    (trial.work / "kept/data").write_text("found")
    (trial.work / "link").symlink_to("kept")
    (trial.root / "in").mkdir()
    (trial.root / "in/link").symlink_to(trial.work / "kept/data")
    read = (str(trial.work / "kept"), str(trial.work / "link"), str(trial.root / "in"), str(trial.root / "in/link"))
    if lacks(trial, "new files around closed ones"):
        (trial.work / "y").touch()
    done, log = trial.run(f"print(open({read[3]!r}).read()); open('y', 'w'); open('link/x', 'w')", read=read)
    assert not done.ok
    assert "found\n" in log
    assert "Read-only file system: 'link/x'" in log or "Permission denied: 'link/x'" in log
    assert (trial.work / "y").exists()


def test_generated_code_needs_sandbox_or_owners_permission(tmp_path):
    command = Command(argv=("/bin/true",), cwd=str(tmp_path), write=(str(tmp_path),), generated=True)
    with pytest.raises(InvalidRequestError, match="--allow-unsandboxed"):
        ProcessSandbox().start(tmp_path / "job", command)
    assert not (tmp_path / "job").exists()
    ProcessSandbox(allow_generated=True).start(tmp_path / "job", command)


def test_a_missing_path_is_told_before_the_start(trial):
    with pytest.raises(InfrastructureError, match="/nonesuch"):
        trial.start("pass", read=("/nonesuch",))
    with pytest.raises(InfrastructureError, match="none of its writable folders"):
        trial.start("pass", cwd=str(trial.root))


def test_a_program_that_is_not_there(trial):
    folder = trial.root / "jobs/none"
    trial.sandbox.start(folder, trial.command("pass").model_copy(update={"argv": ("/nonesuch",)}))
    done = wait(trial.sandbox, folder, every=0.01)
    assert (done.code, done.reason) == (127, "failed_to_start")
    assert "/nonesuch" in (folder / "log.txt").read_text()
