"""The filter of system calls: what it says by its own instructions, and what it stops in a job."""

import errno
import os
import struct

import pytest

from tuneloop.sandboxes import bubblewrap, seccomp
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox, probe_bubblewrap

from .conftest import Trial

ALLOWED = 0
MACHINES = sorted(seccomp.ARCHITECTURES)
CALL = """
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(*words):
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in words]  # the last ones lie on the stack
    if libc.syscall(*words) < 0: raise OSError(ctypes.get_errno(), '')
def child():
    data = ctypes.create_string_buffer(b'theirs')
    pid = os.fork()
    if pid == 0: import time; time.sleep(20)
    return pid, ctypes.addressof(data)
def read_child():
    pid, place = child()
    mine = ctypes.create_string_buffer(6)
    pair = lambda at: (ctypes.c_size_t * 2)(at, 6)
    call(NUMBER, pid, pair(ctypes.addressof(mine)), 1, pair(place), 1, 0)
    assert mine.raw == b'theirs'
"""
# What a job does with each, as it works where nothing holds it.
ATTACKS = {
    "process_vm_readv": "read_child()",
    "ptrace": "call(NUMBER, 0, 0, 0, 0)",
    "pidfd_getfd": "call(NUMBER, os.pidfd_open(child()[0]), 1, 0)",
    "kcmp": "call(NUMBER, os.getpid(), child()[0], 2, 0, 0)",
    "keyctl": "call(NUMBER, 0, -3, 1)",
    "add_key": "call(NUMBER, b'user', b'name', b'secret', 6, -2)",
    "io_uring_setup": "call(NUMBER, 1, ctypes.create_string_buffer(120))",
    "userfaultfd": "call(NUMBER, 1)",
    "name_to_handle_at": "call(NUMBER, -100, b'/usr', struct_handle(), ctypes.byref(ctypes.c_int()), 0)",
    "personality": "call(NUMBER, 0x40000)",
    "chmod": "open('x', 'w'); os.chmod('x', 0o4755)",
    "open": "os.open('y', os.O_CREAT | os.O_WRONLY, 0o4755)",
    "socket": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4)",  # lists every socket there is
}
HANDLE = "def struct_handle(): return ctypes.create_string_buffer(b'\\x80\\0\\0\\0', 136)\n"


def verdict(program: bytes, audit: int, number: int, *given: int) -> int:
    """The errno that a filter answers to a call, as the kernel reads it."""
    data = struct.pack("=IIQ6Q", number, audit, 0, *(*given, 0, 0, 0, 0, 0, 0)[:6])
    steps, at, word = list(struct.iter_unpack("=HBBI", program)), 0, 0
    while True:
        code, yes, no, value = steps[at]
        if code == seccomp.RETURN:
            assert value == seccomp.ALLOW or value & ~0xFFFF == seccomp.ERROR
            return ALLOWED if value == seccomp.ALLOW else value & 0xFFFF
        if code == seccomp.LOAD:
            word, yes, no = struct.unpack_from("=I", data, value)[0], 0, 0
        if code == seccomp.AND:
            word, yes, no = word & value, 0, 0
        holds = {
            seccomp.LOAD: True,
            seccomp.AND: True,
            seccomp.EQUAL: word == value,
            seccomp.GREATER: word > value,
            seccomp.ANY_BIT: bool(word & value),
        }[code]
        at += 1 + (yes if holds else no)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("machine", MACHINES)
def test_every_number_is_answered_as_the_lists_say(machine, shared):
    column, audit = seccomp.ARCHITECTURES[machine]
    program = seccomp.build_filter(shared=shared, inet=not shared, machine=machine)
    wanted = {row[column]: errno.EPERM for row in (seccomp.REFUSED | (seccomp.SHARED if shared else {})).values()}
    wanted |= {row[column]: errno.ENOSYS for row in seccomp.UNKNOWN.values()}
    wanted |= {row[column]: errno.EAFNOSUPPORT for row in (seccomp.SOCKET, seccomp.SOCKETPAIR)}  # no family 0
    for number in range(seccomp.LAST + 1):
        assert verdict(program, audit, number) == wanted.get(number, ALLOWED), number
    for beyond in (seccomp.LAST + 1, 1 << 30, (1 << 30) + 16, (1 << 32) - 1):
        assert verdict(program, audit, beyond) == errno.ENOSYS
    assert verdict(program, audit ^ 0x80000000, 1) == errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_arguments_decide(machine):
    column, audit = seccomp.ARCHITECTURES[machine]
    plain = seccomp.build_filter(machine=machine)
    shared = seccomp.build_filter(machine=machine, shared=True, inet=False)

    def says(call: tuple[int, int], *given: int) -> tuple[int, int]:
        return verdict(plain, audit, call[column], *given), verdict(shared, audit, call[column], *given)

    no_family = errno.EAFNOSUPPORT
    assert says(seccomp.SOCKET, 1) == (ALLOWED, ALLOWED)
    assert says(seccomp.SOCKET, 2) == says(seccomp.SOCKET, 10) == says(seccomp.SOCKET, 16, 3, 0) == (0, no_family)
    assert says(seccomp.SOCKET, 17) == says(seccomp.SOCKET, 16, 3, 4) == (no_family, no_family)
    assert says(seccomp.SOCKETPAIR, 1) == (ALLOWED, ALLOWED)
    assert says(seccomp.CLONE, 0x01200011) == (ALLOWED, ALLOWED)  # what fork asks for
    assert says(seccomp.CLONE, 0x003D0F00) == (ALLOWED, ALLOWED)  # what a thread asks for
    for bit in (17, 25, 26, 27, 28, 29, 30):  # mounts, cgroups, names, System V, users, processes, network
        assert says(seccomp.CLONE, 1 << bit | 17) == (errno.EPERM, errno.EPERM)
    for word in (0x5412, 0x5412 | 1 << 32, 0x541C):  # the kernel takes the lower half
        assert says(seccomp.IOCTL, 0, word) == (errno.EPERM, errno.EPERM)
    assert says(seccomp.IOCTL, 0, 0x5413) == (ALLOWED, ALLOWED)
    for numbers, mode, flags in seccomp.MODES.values():
        if (number := numbers[column]) is not None:
            given = [0] * 6
            if flags is not None:
                given[mode], given[flags] = 0o4755, os.O_WRONLY  # what is no mode may be anything
                assert verdict(plain, audit, number, *given) == ALLOWED
                given[flags] |= os.O_CREAT
            for bits in (0o4755, 0o2755):
                given[mode] = bits
                assert verdict(plain, audit, number, *given) == errno.EPERM
            given[mode] = 0o1777
            assert verdict(plain, audit, number, *given) == ALLOWED
    assert says(seccomp.PRLIMIT, 0) == (ALLOWED, ALLOWED)
    assert says(seccomp.PRLIMIT, 7) == (ALLOWED, errno.EPERM)


def test_other_architectures_have_none():
    assert seccomp.build_filter(machine="riscv64") == b""


@pytest.fixture
def job(tmp_path):
    if problem := probe_bubblewrap():
        pytest.skip(problem)
    (tmp_path / "work").mkdir()
    return Trial(BubblewrapSandbox(), tmp_path)


@pytest.mark.parametrize("name", ATTACKS)
def test_what_works_without_the_filter_is_refused_with_it(job, name, monkeypatch):
    column = seccomp.ARCHITECTURES[os.uname().machine][0]
    rows = {**seccomp.REFUSED, **seccomp.UNKNOWN, "personality": seccomp.PERSONALITY}
    number = rows.get(name, (None, None))[column]
    code = f"NUMBER = {number}\n{CALL}{HANDLE}try: {ATTACKS[name]}; print('did')\n"
    code += "except OSError as e: print(errno.errorcode[e.errno])"
    wanted = "EAFNOSUPPORT" if name == "socket" else "ENOSYS" if name in seccomp.UNKNOWN else "EPERM"
    assert job.run(code, "held")[1] == f"{wanted}\n"
    monkeypatch.setattr(bubblewrap, "seccomp_descriptor", tuple)
    assert job.run(code, "free")[1] == "did\n"


def test_ordinary_work_goes_on(job):
    code = """
import faulthandler, mmap, multiprocessing, socket, subprocess, sys, threading
assert subprocess.run(['/bin/echo', 'x'], capture_output=True).stdout == b'x\\n'
with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
one = threading.Thread(target=print, args=('thread',)); one.start(); one.join()
a, b = socket.socketpair(); server = socket.create_server(('127.0.0.1', 0))
socket.create_connection(server.getsockname())
assert socket.getaddrinfo('127.0.0.1', 80)
from multiprocessing.shared_memory import SharedMemory
block = SharedMemory(create=True, size=10); block.unlink()
faulthandler.dump_traceback()
print('fine')
"""
    done, log = job.run(code)
    assert done.ok, log
    assert log.endswith("fine\n")
