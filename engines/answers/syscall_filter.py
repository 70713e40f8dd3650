"""A system call filter for the code of an answer: no processes, no signals, no sockets, no look at other processes.

Calls that change owners, modes, times or attributes seem to work and do nothing: Landlock does not stop them on what is not
the answer's, and libraries that copy files make them on what is.

Not covered: processors other than x86-64 and ARM64, where nothing is filtered.
"""

from __future__ import annotations

import base64
import errno
import platform
import struct

import fork_isolation
import landlock

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # classic BPF
NUMBER, ARCHITECTURE, FIRST_ARGUMENT, SECOND_ARGUMENT = 0, 4, 16, 24  # offsets in struct seccomp_data; low halves
ALLOW, FAIL = 0x7FFF0000, 0x00050000
THREAD = 0x00010000  # CLONE_THREAD
X32 = 0x40000000
# By their second argument. FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR make a file that nobody can remove; FIOSETOWN, SIOCSPGRP,
# F_SETOWN and F_SETOWN_EX let the kernel signal another process when a descriptor is ready, with any signal by F_SETSIG.
OF_IOCTL, OF_FCNTL = (0x40086602, 0x401C5820, 0x8901, 0x8902), (8, 15)

# Besides these, clone only makes threads, clone3 seems not to be there (its flags cannot be read), and prlimit64 is for
# the process itself.
NAMES = (
    "fork", "vfork", "execve", "execveat", "kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo",
    "pidfd_send_signal", "pidfd_open", "pidfd_getfd", "ptrace", "process_vm_readv", "process_vm_writev", "unshare",
    "setns", "socket", "mount", "umount2", "io_uring_setup", "bpf", "perf_event_open", "userfaultfd", "keyctl",
    "add_key", "request_key", "sched_setaffinity", "setpriority", "sched_setscheduler", "sched_setparam", "sched_setattr",
    "ioprio_set", "chroot", "pivot_root", "shmget", "semget", "msgget", "mq_open",
)  # fmt: skip
X86_64 = (57, 58, 59, 322, 62, 200, 234, 129, 297, 424, 434, 438, 101, 310, 311, 272, 308, 41, 165, 166, 425, 321, 298)
X86_64 += (323, 250, 248, 249, 203, 141, 144, 142, 314, 251, 161, 155, 29, 64, 68, 240)
ARM64 = (-1, -1, 221, 281, 129, 130, 131, 138, 240, 424, 434, 438, 117, 270, 271, 97, 268, 198, 40, 39, 425, 280, 241)
ARM64 += (282, 219, 217, 218, 122, 140, 119, 118, 274, 30, 51, 41, 194, 190, 186, 180)
# These seem to work.
CHANGES = (
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes", "futimesat",
    "utimensat", "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr", "setxattrat",
    "removexattrat", "file_setattr",
)  # fmt: skip
X86_64_CHANGES = (90, 91, 268, 452, 92, 93, 94, 260, 132, 235, 261, 280, 188, 189, 190, 197, 198, 199, 463, 466, 469)
ARM64_CHANGES = (-1, 52, 53, 452, -1, 55, -1, 54, -1, -1, -1, 88, 5, 6, 7, 14, 15, 16, 463, 466, 469)
# Per machine: its audit number, the numbers of NAMES and of CHANGES, and those of clone, clone3, prlimit64, ioctl and fcntl.
MACHINES = {
    "x86_64": (0xC000003E, X86_64, X86_64_CHANGES, 56, 435, 302, 16, 72),
    "aarch64": (0xC00000B7, ARM64, ARM64_CHANGES, 220, 435, 261, 29, 25),
}


Row = tuple[int, int, int, int]


def program(machine: str) -> list[Row]:
    """The filter: (code, skip if yes, skip if no, value) each."""
    architecture, numbers, changes, clone, clone3, prlimit, ioctl, fcntl = MACHINES[machine]
    deny, allow = (RETURN, 0, 0, FAIL | errno.EPERM), (RETURN, 0, 0, ALLOW)
    rows: list[Row] = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, architecture), deny, (LOAD, 0, 0, NUMBER)]
    rows += [(AT_LEAST, 0, 1, X32), deny] if machine == "x86_64" else []
    for number in numbers:
        rows += [(EQUAL, 0, 1, number), deny] if number >= 0 else []
    for number in changes:
        rows += [(EQUAL, 0, 1, number), (RETURN, 0, 0, FAIL)] if number >= 0 else []
    for call, refused in ((ioctl, OF_IOCTL), (fcntl, OF_FCNTL)):
        rows += [(EQUAL, 0, 2 + 2 * len(refused), call), (LOAD, 0, 0, SECOND_ARGUMENT)]
        rows += [row for value in refused for row in ((EQUAL, 0, 1, value), deny)] + [allow]
    rows += [(EQUAL, 0, 1, clone3), (RETURN, 0, 0, FAIL | errno.ENOSYS)]
    rows += [(EQUAL, 0, 4, clone), (LOAD, 0, 0, FIRST_ARGUMENT), (ANY_BIT, 1, 0, THREAD), deny, allow]
    rows += [(EQUAL, 0, 4, prlimit), (LOAD, 0, 0, FIRST_ARGUMENT), (EQUAL, 1, 0, 0), deny, allow]
    return [*rows, allow]


def forbid() -> None:
    """From here on, for this thread and all that come of it. Raises OSError."""
    if platform.machine() not in MACHINES:
        return
    landlock.libc.prctl(landlock.NO_NEW_PRIVS, 1, 0, 0, 0)
    steps = b"".join(struct.pack("=HBBI", *row) for row in program(platform.machine()))
    fork_isolation.filter_calls(base64.b64encode(steps).decode())
