"""landlock: what its filter and rules hold by release, who jobs are, and where the sandbox is refused."""

import errno
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.job import Command, Limits
from tuneloop.sandboxes import choose, landlock, landlock_rules, seccomp
from tuneloop.sandboxes.bubblewrap import probe_bubblewrap
from tuneloop.sandboxes.confined_calls import NO_EFFECT, REFUSED, SERVING, SET_TIMES, build_confined_filter
from tuneloop.sandboxes.job_user import JOB_USER
from tuneloop.sandboxes.jobs import wait
from tuneloop.sandboxes.landlock import LandlockSandbox, find_user, may_become, open_landlock, probe_landlock

from .conftest import Trial
from .test_seccomp import verdict

MACHINES = sorted(seccomp.ARCHITECTURES)
RELEASES = sorted({1, 2, 3, 4, 5, landlock_rules.kernel_abi()})
TRIED = """
import ctypes, errno, os, signal, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
def call(*words):
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in words]
    if (found := libc.syscall(*words)) < 0: raise OSError(ctypes.get_errno(), '')
    return found
def tried(do):
    try: do()
    except OSError as e: print(errno.errorcode[e.errno])
    else: print('did')
"""


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    """In the newest release that the kernel has."""
    (tmp_path / "work").mkdir()
    return Trial(LandlockSandbox(), tmp_path)


@pytest.mark.parametrize("machine", MACHINES)
def test_every_number_is_answered_as_the_lists_say(machine):
    column, audit = seccomp.ARCHITECTURES[machine]
    program = build_confined_filter("none", 7, machine)
    wanted = {row[column]: errno.EPERM for row in (REFUSED | SERVING).values()}
    wanted |= {row[column]: errno.EAFNOSUPPORT for row in (seccomp.SOCKET, seccomp.SOCKETPAIR)}
    nothing_done = {row[column] for row in NO_EFFECT.values()}
    for number in range(seccomp.LAST + 1):
        if number not in nothing_done and number != SET_TIMES[column]:
            assert verdict(program, audit, number) == wanted.get(number, 0), number
    assert verdict(program, audit ^ 0x80000000, 1) == errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("network", ["none", "own ports", "all"])
def test_which_sockets_can_be_made(machine, network):
    column, audit = seccomp.ARCHITECTURES[machine]
    program = build_confined_filter(network, 7, machine)

    def may(call: tuple[int, int], *given: int) -> bool:
        return verdict(program, audit, call[column], *given) == 0

    for family in (seccomp.INET, seccomp.INET6):
        assert may(seccomp.SOCKET, family, 1, 6) == may(seccomp.SOCKET, family, 1 | 0o2000000, 0) == (network != "none")
        assert may(seccomp.SOCKET, family, 2, 0) == may(seccomp.SOCKET, family, 1, 262) == (network == "all")
    assert may(seccomp.SOCKET, seccomp.NETLINK, 3, 0) == (network == "all")
    for family in (seccomp.UNIX, 17, 40, 38):  # packets, virtual machines, the kernel's ciphers
        assert not may(seccomp.SOCKET, family, 1, 0)
    assert may(seccomp.SOCKETPAIR, seccomp.UNIX, 1 | 0o2000000, 0)
    assert not may(seccomp.SOCKETPAIR, seccomp.UNIX, 2, 0)
    assert not may(seccomp.SOCKETPAIR, seccomp.UNIX, 3, 0)
    assert may((44, 206), 3, 0, 0, 0x20000000) == (network != "own ports")  # a fast open needs a socket at all


def test_generated_code_makes_no_socket(trial):
    code = (
        TRIED + "for family in range(46):\n    for kind in (1, 2, 3, 5): tried(lambda: call(NUMBER, family, kind, 0))\n"
    )
    number = seccomp.SOCKET[seccomp.ARCHITECTURES[os.uname().machine][0]]
    done, log = trial.run(code.replace("NUMBER", str(number)), generated=True)
    assert done.ok
    assert set(log.split()) <= {"EAFNOSUPPORT", "EPERM"}


@pytest.mark.parametrize("abi", RELEASES)
def test_what_a_release_lacks_the_filter_holds(tmp_path, abi):
    (tmp_path / "work").mkdir()
    (tmp_path / "given").write_text("whole")
    trial = Trial(LandlockSandbox(abi=abi), tmp_path)
    given = str(tmp_path / "given")
    code = f"""
tried(lambda: os.truncate({given!r}, 0))
tried(lambda: os.open({given!r}, os.O_RDONLY | os.O_TRUNC))
tried(lambda: os.open({given!r}, os.O_ACCMODE | os.O_TRUNC))
tried(lambda: open({given!r}, 'w'))
for pid in ({os.getpid()}, os.getppid()):
    tried(lambda: os.kill(pid, 0))
    tried(lambda: signal.pidfd_send_signal(os.pidfd_open(pid), 0))
    tried(lambda: call(TKILL, pid, 0))
tried(lambda: os.kill(os.getpid(), 0))
open('own', 'w').write('more'); open('own', 'w').close(); print(os.path.getsize('own'))
os.mkdir('a'); tried(lambda: os.rename('own', 'a/own'))
"""
    number = {"x86_64": 200, "aarch64": 130}[os.uname().machine]
    done, log = trial.run(TRIED + code.replace("TKILL", str(number)), read=(given,))
    assert done.ok, log
    lines = log.split()
    assert set(lines[:10]) <= {"EPERM", "EACCES"}
    assert lines[10:] == ["did", "0", "did" if abi > 1 else "EXDEV"]
    assert (tmp_path / "given").read_text() == "whole"


def test_modes_and_times_of_others_files_stay(trial):
    (trial.root / "given").write_text("x")
    os.utime(trial.root / "given", (7, 7))
    (trial.root / "given").chmod(0o640)
    code = f"""
import os, pathlib, shutil
given = {str(trial.root / "given")!r}
os.chmod(given, 0o777); os.utime(given, (9, 9))
try: os.utime(given)
except PermissionError: print('held')
shutil.copy2(given, 'copied'); pathlib.Path('made').touch(); pathlib.Path('made').touch(); print(sorted(os.listdir()))
"""
    done, log = trial.run(code, read=(str(trial.root / "given"),))
    assert done.ok, log
    assert log == "held\n['copied', 'made']\n"
    found = (trial.root / "given").stat()
    assert (found.st_mode & 0o777, found.st_mtime) == (0o640, 7)


PORTS = """
import socket, sys
own = socket.create_server(('127.0.0.1', 0))
line = socket.create_connection(own.getsockname()); print('own')
for do in (lambda: socket.create_connection(('127.0.0.1', SERVICE)), lambda: socket.create_server(('127.0.0.1', 8099)),
           lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM), lambda: socket.socket(2, 1, 262),
           lambda: socket.socket(socket.AF_INET, 1).sendto(b'x', 0x20000000, ('127.0.0.1', SERVICE))):
    try: do()
    except OSError: print('held')
"""


def test_engines_that_talk_to_themselves_have_ports_of_their_own(trial):
    with serving_below_ephemeral() as port:
        done, log = trial.run(PORTS.replace("SERVICE", str(port)), env={"FORCE_TORCHRUN": "1"})
    assert done.ok, log
    assert log.split() == ["own", *["held"] * 5]
    with pytest.raises(InvalidRequestError, match=r"Linux 6\.7, one GPU"):
        Trial(LandlockSandbox(abi=3), trial.root).run("pass", "old", env={"FORCE_TORCHRUN": "1"})


@contextmanager
def serving_below_ephemeral() -> Iterator[int]:
    """A service at a port that the kernel gives nobody by itself."""
    for port in range(8100, 8200):
        try:
            server = socket.create_server(("127.0.0.1", port))
        except OSError:
            continue
        with server:
            yield port
            return


def test_generated_code_gets_no_ports(trial):
    done, log = trial.run(PORTS, generated=True, env={"FORCE_TORCHRUN": "1"})
    assert not done.ok
    assert "Address family not supported" in log


PROCESSES = """
import multiprocessing as m, sys
from concurrent.futures import ProcessPoolExecutor
def work(total, lock):
    for _ in range(200):
        with lock: total.value += 1
if __name__ == '__main__':
    with m.Pool(2) as pool: print(pool.map(abs, [-1, -2]))
    with m.get_context('spawn').Pool(1) as pool: print(pool.map(abs, [-3]))
    with m.get_context('forkserver').Pool(1) as pool: print(pool.map(abs, [-4]))
    with ProcessPoolExecutor(1) as pool: print(list(pool.map(abs, [-5])))
    total, lock, line = m.Value('i', 0, lock=False), m.Lock(), m.Queue()
    children = [m.Process(target=work, args=(total, lock)) for _ in range(3)]
    for child in children: child.start()
    for child in children: child.join()
    print(total.value, lock.acquire(), lock.acquire(timeout=0.01), lock.acquire(False))
    m.Process(target=line.put, args=('queued',)).start(); print(line.get(timeout=20))
    m.Manager()
"""


def test_generated_code_may_start_processes_and_is_told_what_needs_sockets(trial):
    (trial.work / "script.py").write_text(PROCESSES)
    command = trial.command("", generated=True)
    python = command.model_copy(update={"argv": (sys.executable, str(trial.work / "script.py"))})
    trial.sandbox.start(trial.root / "job", python)
    assert not wait(trial.sandbox, trial.root / "job", every=0.01).ok
    lines = (trial.root / "job/log.txt").read_text().splitlines()
    assert lines[:6] == ["[1, 2]", "[3]", "[4]", "[5]", "600 True False False", "queued"]
    assert lines[-1].startswith("OSError: [Errno 97] this sandbox has no sockets, which a Manager needs")
    assert "right is multiprocessing.Pool" in lines[-1]


def test_scratch_of_a_job_goes_with_it(trial):
    _, log = trial.run("import os, tempfile; os.makedirs(tempfile.mkdtemp() + '/a/b'); print(os.environ['TMPDIR'])")
    assert log.strip().startswith(tempfile.gettempdir())
    assert not Path(log.strip()).exists()


AS_USER = """
import os
print(os.getuid(), os.getgid(), os.getgroups())
print([line.split()[1].strip('0') for line in open('/proc/self/status') if line.startswith('Cap')])
open('made', 'w')
try: os.kill(os.getppid(), 0)
except PermissionError: print('held')
"""


def plain_command(place: Path, code: str, **fields: object) -> Command:
    """Debian's own Python: ours may lie in root's home."""
    (place / "work").mkdir(exist_ok=True)
    given = {"cwd": str(place / "work"), "write": (str(place / "work"),), "limits": Limits(seconds=20), **fields}
    return Command.model_validate({"argv": ("/usr/bin/python3", "-I", "-S", "-c", code), **given})


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="the system has no Python")
@pytest.mark.skipif(find_user() is None, reason="only root can become another user")
def test_roots_jobs_are_a_user_of_their_own(open_folder):
    sandbox = LandlockSandbox(find_user())
    assert may_become((JOB_USER, JOB_USER))
    sandbox.start(open_folder / "job", plain_command(open_folder, AS_USER))
    assert wait(sandbox, open_folder / "job", every=0.01).ok
    assert (open_folder / "job/log.txt").read_text().splitlines() == [
        f"{JOB_USER} {JOB_USER} []",
        str([""] * 5),
        "held",
    ]
    assert (open_folder / "work/made").stat().st_uid == JOB_USER
    sandbox.check_reachable(open_folder / "home that is not there yet")
    open_folder.chmod(0o700)
    with pytest.raises(InvalidRequestError, match=r"FT_FILE_PATH below /var/lib or /opt"):
        sandbox.check_reachable(open_folder / "home that is not there yet")
    with pytest.raises(InvalidRequestError, match=rf"{open_folder} is closed to jobs.*right is `chmod a\+rX"):
        sandbox.start(open_folder / "next", plain_command(open_folder, "pass"))
    assert not (open_folder / "next/exit.json").exists()


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="the system has no Python")
@pytest.mark.skipif(find_user() is None, reason="only root can become another user")
@pytest.mark.parametrize(
    ("limits", "code", "reason"),
    [
        ({"memory": 60 << 20}, "x = bytearray(120 << 20); import time; time.sleep(20)", "memory"),
        ({"processes": 4}, "import os, time\nfor _ in range(9): os.fork()\ntime.sleep(20)", "processes"),
        ({"disk": 1 << 20}, "open('x', 'wb').write(b'x' * (4 << 20)); import time; time.sleep(20)", "disk"),
    ],
)
def test_limits_hold_for_jobs_of_that_user(open_folder, limits, code, reason):
    sandbox = LandlockSandbox(find_user())
    sandbox.start(open_folder / "job", plain_command(open_folder, code, limits=Limits(seconds=20, **limits)))
    assert wait(sandbox, open_folder / "job", every=0.01).reason == reason


def test_a_connection_is_handed_down(trial):
    """One byte asks for it, and it comes as a descriptor; the job itself can make no socket."""
    place = trial.root / "models"
    place.mkdir()
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(str(place / "socket"))
        server.listen()
        code = """
import os, socket
asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=int(os.environ['TUNELOOP_ENDPOINT']))
for _ in range(2):
    asked.send(b'c')
    _, (handle,), _, _ = socket.recv_fds(asked, 1, 1)
    line = socket.socket(fileno=handle); line.sendall(b'hello'); print(line.recv(9).decode())
"""
        folder = trial.start(code, generated=True, endpoint=str(place / "socket"))
        for _ in range(2):
            server.settimeout(20)
            line, _ = server.accept()
            with line:
                line.sendall(line.recv(9).upper())
        assert wait(trial.sandbox, folder, every=0.01).ok
        assert (folder / "log.txt").read_text() == "HELLO\nHELLO\n"


NESTED = ("bwrap", "--unshare-user", "--disable-userns", "--dev-bind", "/", "/", "--")
CHOOSE = """
from tuneloop.sandboxes.choose import open_sandbox
found = open_sandbox('auto')
print(found.kind, found.note, sep='\\n')
"""


@pytest.mark.skipif(probe_bubblewrap() is not None, reason="needs user namespaces to take them away")
def test_without_user_namespaces_auto_is_landlock():
    import subprocess

    argv = [*NESTED, sys.executable, "-c", CHOOSE]
    told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    assert told[0] == "landlock"
    assert "no /proc, pids or quota of their own" in told[1]
    assert ("root without capabilities" in told[1]) == (not os.geteuid())


@pytest.fixture
def no_landlock(monkeypatch):
    """As gVisor and older kernels answer."""
    probe_landlock.cache_clear()
    monkeypatch.setattr(landlock, "kernel_abi", lambda: 0)
    yield
    probe_landlock.cache_clear()


@pytest.mark.usefixtures("no_landlock")
def test_a_kernel_without_landlock_is_told(monkeypatch):
    with pytest.raises(InvalidRequestError, match="CONFIG_SECURITY_LANDLOCK"):
        open_landlock()
    monkeypatch.setattr(choose, "probe_bubblewrap", lambda: "no namespaces")
    monkeypatch.setattr(choose, "open_docker", open_landlock)
    with pytest.raises(
        InvalidRequestError, match=r"no namespaces; nor landlock: .*; nor docker: .*--allow-unsandboxed"
    ):
        choose.open_sandbox("auto")


def test_filter_words_are_whole_instructions():
    for network in ("none", "own ports", "all"):
        for abi in RELEASES:
            assert len(build_confined_filter(network, abi)) % struct.calcsize("=HBBI") == 0
