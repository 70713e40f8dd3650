"""What a job that a warm worker forked cannot reach: the worker, and another job of it. Each attack works without its guard."""

import json
import os
from pathlib import Path

import pytest

from tests.waiting import until
from tuneloop.sandboxes import seccomp
from tuneloop.sandboxes.process import ProcessSandbox

from .conftest import WarmTrial, lacks, start_worker

SYSCALLS = {
    name: rows[0 if os.uname().machine == "x86_64" else 1]
    for name, rows in {**seccomp.REFUSED, **seccomp.SHARED}.items()
}
SECRET = "theirs-4be1"
SIBLING = f"""
import ctypes, json, multiprocessing, os, socket, time
from multiprocessing.shared_memory import SharedMemory
secret = ctypes.create_string_buffer({SECRET.encode()!r})
block = SharedMemory(create=True, size=10)
try: door = socket.socket(socket.AF_UNIX); door.bind('\\0tuneloop-sibling'); door.listen()
except OSError: door = open(os.devnull)  # no sockets in landlock
told = dict(pid=os.getpid(), place=ctypes.addressof(secret), fd=door.fileno(), shm=block.name,
            key=multiprocessing.current_process().authkey.hex())
open('told.part', 'w').write(json.dumps(told)); os.rename('told.part', 'told')
while not os.path.exists('enough'): time.sleep(0.01)
block.close(); block.unlink()
"""
PRELOAD = "import multiprocessing, os, landlock, fork_isolation\nfrom multiprocessing import shared_memory\n"
# How each guard is taken out of a worker.
GUARDS = {
    "landlock": "landlock.restrict = os.close",
    "filter": "fork_isolation.filter_calls = lambda text: None",
    "names": "landlock.READ_DIR = 0",
    "lock": "fork_isolation.hold = lambda lock: None",
    "keys": "fork_isolation.own_keys = lambda: None",
    "caller": "fork_isolation.is_job = lambda connection: False",
}
ATTACKER = f"""
import ctypes, fcntl, json, multiprocessing, os, resource, socket, sys
NUMBERS = {SYSCALLS!r}
root, told = sys.path[0] + '/..', json.load(open('told'))
pid, worker = told['pid'], int(open(f'/proc/{{os.getppid()}}/stat').read().rpartition(')')[2].split()[1])
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *words):
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in words]  # the last ones lie on the stack
    result = libc.syscall(NUMBERS[name], *words)
    if result < 0: raise OSError(ctypes.get_errno(), name)
    return result
def memory(of, place):
    with open(f'/proc/{{of}}/mem', 'rb', 0) as f:
        f.seek(place)
        return f.read(6)
def copied():
    mine = ctypes.create_string_buffer(6)
    pair = lambda at: (ctypes.c_size_t * 2)(at, 6)
    call('process_vm_readv', pid, pair(ctypes.addressof(mine)), 1, pair(told['place']), 1, 0)
    return mine.raw
def in_hand():
    held = [n for n in os.listdir('/proc/self/fd') if os.path.realpath(f'/proc/self/fd/{{n}}').endswith('/lock')]
    fcntl.flock(int((held or ['-2'])[0]), fcntl.LOCK_EX | fcntl.LOCK_NB)  # who could do this could unlock
def asked():
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.connect(f'/proc/self/fd/{{os.open(root + "/own", os.O_PATH)}}/socket')
    wider = dict(argv=[sys.executable, sys.argv[0]], cwd=root, env=dict(os.environ), read=['/'], write=['/'], filter='')
    socket.send_fds(line, [json.dumps(wider).encode()], [1, 1])
    if b'fork_parent' not in line.recv(4096): raise OSError(1, '')
def abstract():
    socket.socket(socket.AF_UNIX).connect('\\0tuneloop-sibling')
def same_key():
    if multiprocessing.current_process().authkey.hex() != told['key']: raise OSError(1, '')
ATTACKS = dict(
    memory=(lambda: memory(pid, told['place']), 'landlock'),
    memory_of_the_worker=(lambda: memory(worker, told['place']), 'landlock'),
    log=(lambda: os.open(f'/proc/{{pid}}/fd/1', os.O_WRONLY), 'landlock'),
    directory=(lambda: os.listdir(f'/proc/{{worker}}/cwd'), 'landlock'),
    root=(lambda: os.listdir(f'/proc/{{worker}}/root/etc'), 'landlock'),
    signal=(lambda: os.kill(pid, 0), 'landlock'),
    abstract_socket=(abstract, 'landlock'),
    copy_of_memory=(copied, 'landlock filter'),
    copy_of_a_descriptor=(lambda: call('pidfd_getfd', os.pidfd_open(pid), told['fd'], 0), 'landlock filter'),
    trace=(lambda: call('ptrace', 0x4206, pid, 0, 0), 'landlock filter'),
    names_of_shared_memory=(lambda: os.listdir('/dev/shm'), 'names|landlock'),
    system_v=(lambda: call('shmget', 7, 4096, 0o1600), 'filter'),
    messages=(lambda: call('mq_open', b'theirs', os.O_CREAT | os.O_RDWR, 0o600, 0), 'landlock filter'),
    keyring=(lambda: call('keyctl', 0, -4, 1), 'filter'),
    loopback=(lambda: socket.create_server(('127.0.0.1', 0)), 'filter'),
    limits=(lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, resource.prlimit(pid, resource.RLIMIT_NOFILE)), 'filter'),
    lock=(in_hand, 'lock'),
    key=(same_key, 'keys'),
    question=(asked, 'caller'),
)
said = {{}}
for name, (attack, guards) in ATTACKS.items():
    try: said[name] = (attack() or True) and 'did'
    except (OSError, ValueError) as e: said[name] = type(e).__name__
print(json.dumps([said, {{name: guards for name, (_, guards) in ATTACKS.items()}}]))
if said['system_v'] == 'did': call('shmctl', call('shmget', 7, 4096, 0), 0, 0)
if said['messages'] == 'did': call('mq_unlink', b'theirs')
"""


def attacked(warm: WarmTrial) -> tuple[dict[str, str], dict[str, str]]:
    """What one job could do to another, and which guards have to be gone for it: together, or one of several."""
    sibling = warm.start(SIBLING, "sibling")
    until((warm.work / "told").exists)
    done, log = warm.run(ATTACKER, "attacker")
    (warm.work / "enough").touch()
    assert done.ok, log
    until(lambda: warm.sandbox.poll(sibling).state == "over")
    said, guards = json.loads(log)
    return said, guards


def test_no_attack_reaches_worker_or_sibling(warm):
    said, _ = attacked(warm)
    assert [name for name, end in said.items() if end == "did"] == []


@pytest.mark.parametrize("out", [*GUARDS, " ".join(GUARDS)])
def test_without_its_guard_each_attack_works(tmp_path: Path, out: str):
    (tmp_path / "work").mkdir()
    without = "\n".join(GUARDS[name] for name in out.split())
    warm = start_worker(tmp_path, ProcessSandbox(), preload=PRELOAD + without)
    said, guards = attacked(warm)
    warm.sandbox.stop(warm.worker, grace=0)
    gone = set(out.split())
    works = {name for name, ways in guards.items() if any(set(way.split()) <= gone for way in ways.split("|"))}
    assert works
    assert {name for name, end in said.items() if end == "did"} == works


def test_engines_work_when_confined(warm):
    code = """
import multiprocessing, subprocess, socket, tempfile, threading, time
from multiprocessing.shared_memory import SharedMemory
def square(queue, n): queue.put(n * n)
block = SharedMemory(create=True, size=10); block.unlink()
queue, lock = multiprocessing.Queue(), multiprocessing.Lock()
one = multiprocessing.Process(target=square, args=(queue, 3)); one.start(); assert queue.get() == 9; one.join()
MANAGER
with multiprocessing.get_context('fork').Pool(2) as pool: assert pool.map(abs, [-1]) == [1]
assert subprocess.run(['/bin/echo', 'x'], capture_output=True).stdout == b'x\\n'
assert socket.gethostname() and tempfile.mkdtemp()
print('fine')
"""
    manager = "with multiprocessing.Manager() as manager: assert manager.list([1])[0] == 1"
    done, log = warm.run(code.replace("MANAGER", "" if lacks(warm, "sockets with names") else manager))
    assert (done.ok, log) == (True, "fine\n")


def test_a_forked_job_has_no_descriptor_but_its_own(warm):
    _, log = warm.run("import os\nfor n in os.listdir('/proc/self/fd'): print(n, end=' ')")
    assert log.split() == ["0", "1", "2", "3"]  # the last one is the list's


def test_the_lock_lives_as_long_as_a_fork_of_the_job(warm):
    folder = warm.start("import os, time\nif os.fork() == 0: time.sleep(60)\nopen('up', 'w'); time.sleep(60)")
    until((warm.work / "up").exists)
    maps = [Path(f"/proc/{pid}/maps").read_text() for pid in until(lambda: holding(folder))]
    assert len(maps) >= 2
    warm.sandbox.stop(folder, grace=0)
    until(lambda: warm.sandbox.poll(folder).state == "over")


def holding(folder: Path) -> list[int]:
    """Processes that map a job's lock."""
    found = []
    for path in Path("/proc").glob("[0-9]*/maps"):
        try:
            if f"{folder}/lock" in path.read_text():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found
