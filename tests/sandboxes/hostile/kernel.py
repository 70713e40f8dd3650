"""The kernel itself: its settings, its keys, its rarely used and often broken system calls."""

from __future__ import annotations

import ctypes
import os
import socket
from pathlib import Path

from .declare import Aim, attack, call, checked, libc

KEYCTL_READ, KEYCTL_SEARCH, SESSION = 11, 10, -3
NEWUSER, NEWNS = 0x10000000, 0x00020000
LOGON = b"tuneloop-hostile"


def openable(path: str) -> None:
    """Opened for writing and closed: nothing is ever written. Raises OSError."""
    os.close(os.open(path, os.O_WRONLY))


@attack("kernel settings", word=True)
def set_the_core_pattern(aim: Aim) -> None:
    openable("/proc/sys/kernel/core_pattern")
    aim.through()


@attack("kernel settings", word=True)
def set_a_memory_rule(aim: Aim) -> None:
    openable("/proc/sys/vm/overcommit_memory")
    aim.through()


@attack("proc", word=True, kept={"bubblewrap": "bwrap covers it by itself; no option leaves that out"})
def route_interrupts(aim: Aim) -> None:
    openable("/proc/irq/default_smp_affinity")
    aim.through()


@attack("sys", word=True)
def set_something_in_sys(aim: Aim) -> None:
    openable("/sys/kernel/mm/transparent_hugepage/enabled")
    aim.through()


@attack("sys", word=True)
def set_limits_of_others(aim: Aim) -> None:
    places = [path for path in Path("/sys/fs/cgroup").rglob("cgroup.procs") if path.stat().st_mode & 0o200]
    openable(str(places[0]))
    aim.through()


@attack("system calls", "capabilities", "user namespace", word=True)
def mount_a_file_system(aim: Aim) -> None:
    (aim.work / "mounted").mkdir()
    checked(libc.mount(b"none", bytes(aim.work / "mounted"), b"tmpfs", 0, None), "mount")
    libc.umount(bytes(aim.work / "mounted"))
    aim.through()


@attack("nested namespaces", "system calls", word=True)
def make_a_user_namespace(aim: Aim) -> None:
    checked(libc.unshare(NEWUSER), "unshare")
    aim.through()


@attack("system calls", "keyring", word=True)
def read_the_keyring(aim: Aim) -> None:
    key = call("keyctl", KEYCTL_SEARCH, SESSION, b"user", LOGON, 0)
    data = ctypes.create_string_buffer(100)
    call("keyctl", KEYCTL_READ, key, data, 100)
    aim.loot(data.raw)


@attack("system calls", word=True)
def leave_a_key(aim: Aim) -> None:
    call("add_key", b"user", LOGON + b"-left", b"forged", 6, SESSION)
    aim.through()


@attack("system calls", word=True)
def hold_up_page_faults(aim: Aim) -> None:
    call("userfaultfd", 1)  # for its own pages, which needs no right
    aim.through()


@attack("system calls", "capabilities", "user namespace", word=True)
def load_a_program_into_the_kernel(aim: Aim) -> None:
    attributes = (ctypes.c_uint32 * 32)(1, 4, 8, 1)  # BPF_MAP_TYPE_HASH
    call("bpf", 0, ctypes.byref(attributes), 72)
    aim.through()


@attack("system calls", "capabilities", "user namespace", word=True)
def watch_performance_counters(aim: Aim) -> None:
    attributes = (ctypes.c_uint32 * 32)(1, 128)  # PERF_TYPE_SOFTWARE
    call("perf_event_open", ctypes.byref(attributes), 0, -1, -1, 0)
    aim.through()


@attack("system calls", word=True)
def use_the_kernels_own_rings(aim: Aim) -> None:
    call("io_uring_setup", 4, ctypes.byref((ctypes.c_uint32 * 32)()))
    aim.through()


@attack("ipc namespace")
def read_a_memory_segment(aim: Aim) -> None:
    libc.shmat.restype = ctypes.c_void_p
    place = libc.shmat(aim.segment, None, 0o10000)
    if place in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "shmat")
    aim.loot(ctypes.string_at(place, 100))


@attack("host name", "capabilities", "user namespace", "system calls")
def rename_the_machine(aim: Aim) -> None:
    socket.sethostname(f"{aim.host_name}-x")


@attack("environment")
def read_the_environment(aim: Aim) -> None:
    aim.loot(repr(dict(os.environ)))


@attack("environment")
def read_the_environment_of_everybody(aim: Aim) -> None:
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            aim.steal(path)
        except OSError:
            continue
