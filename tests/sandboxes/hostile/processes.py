"""Processes that are not the job's: ended, stopped, looked into, slowed down, traced."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from pathlib import Path

from .declare import Aim, attack, call, checked, libc

ATTACH = 16
# Who may see a process may not look into one with more rights, or of another user namespace.
ALL = ("pid namespace", "user namespace", "capabilities")


class Span(ctypes.Structure):
    """struct iovec."""

    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


@attack("pid namespace", victim=True)
def kill_a_stranger(aim: Aim) -> None:
    os.kill(aim.victim, signal.SIGKILL)


@attack("pid namespace", victim=True)
def stop_a_stranger(aim: Aim) -> None:
    os.kill(aim.victim, signal.SIGSTOP)


@attack("pid namespace", victim=True)
def end_a_stranger_by_a_handle(aim: Aim) -> None:
    signal.pidfd_send_signal(os.pidfd_open(aim.victim), signal.SIGTERM)


@attack("pid namespace", victim=True)
def end_a_strangers_group(aim: Aim) -> None:
    os.killpg(aim.victim, signal.SIGTERM)


@attack(*ALL, victim=True)
def read_a_strangers_environment(aim: Aim) -> None:
    aim.steal(f"/proc/{aim.victim}/environ")


@attack("pid namespace", victim=True)
def read_a_strangers_command_line(aim: Aim) -> None:
    aim.steal(f"/proc/{aim.victim}/cmdline")


@attack(*ALL, "system calls", victim=True)
def read_a_strangers_memory(aim: Aim) -> None:
    begin, end = stack(aim.victim)
    data = ctypes.create_string_buffer(end - begin)
    ours, theirs = Span(ctypes.addressof(data), len(data)), Span(begin, end - begin)
    checked(libc.process_vm_readv(aim.victim, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0), "process_vm_readv")
    aim.loot(data.raw)


@attack(*ALL, victim=True)
def read_a_strangers_memory_as_a_file(aim: Aim) -> None:
    begin, end = stack(aim.victim)
    with open(f"/proc/{aim.victim}/mem", "rb", buffering=0) as f:
        f.seek(begin)
        aim.loot(f.read(end - begin))


@attack(*ALL, "system calls", victim=True)
def trace_a_stranger(aim: Aim) -> None:
    checked(libc.ptrace(ATTACH, aim.victim, None, None), "ptrace")
    os.waitpid(aim.victim, 0)
    aim.steal(f"/proc/{aim.victim}/environ")


@attack(*ALL, "system calls", victim=True)
def take_a_strangers_descriptor(aim: Aim) -> None:
    handle = call("pidfd_getfd", os.pidfd_open(aim.victim), 0, 0)
    aim.loot(os.pread(handle, 1000, 0))


@attack(*ALL, victim=True)
def slow_a_stranger_down(aim: Aim) -> None:
    os.setpriority(os.PRIO_PROCESS, aim.victim, 19)


@attack(*ALL, victim=True)
def take_a_strangers_limits(aim: Aim) -> None:
    resource.prlimit(aim.victim, resource.RLIMIT_FSIZE, (0, 0))


@attack(*ALL, victim=True)
def offer_a_stranger_to_the_kernel(aim: Aim) -> None:
    Path(f"/proc/{aim.victim}/oom_score_adj").write_text("1000")


@attack(*ALL, "system calls", victim=True)
def enter_a_strangers_namespaces(aim: Aim) -> None:
    handle = os.open(f"/proc/{aim.victim}/ns/mnt", os.O_RDONLY)
    checked(libc.setns(handle, 0), "setns")
    aim.steal(aim.host / "canary")


def stack(pid: int) -> tuple[int, int]:
    """Where a process keeps its environment."""
    line = next(line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if line.endswith("[stack]"))
    begin, _, end = line.split()[0].partition("-")
    return int(begin, 16), int(end, 16)
