"""A filter of system calls for jobs, as the kernel's own small program (seccomp BPF), for x86-64 and arm64.

It refuses what no training or evaluation needs and what has opened sandboxes before, after the model of Docker's
default profile: mounts and namespaces, other processes' memory, tracing, keys, io_uring, modules, clocks. A refused
call returns an error, so that libraries fall back. What the kernel learns after LAST is refused as unknown.
"""

from __future__ import annotations

import errno
import os
import struct

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column below, AUDIT_ARCH_*
LAST = 469  # the newest call that was looked at: file_setattr
# Numbers on x86-64 and arm64; None where the architecture has no such call.
REFUSED: dict[str, tuple[int | None, int | None]] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "uselib": (134, None),
    "sysfs": (139, None),
    "ustat": (136, None),
    "modify_ldt": (154, None),
    "iopl": (172, None),
    "ioperm": (173, None),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}
UNKNOWN: dict[str, tuple[int | None, int | None]] = {
    "clone3": (435, 435),  # arguments of these two lie in memory that a filter cannot read; the older calls do as well
    "openat2": (437, 437),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
# What a fork of a warm engine shares with its siblings: System V's objects and message queues have names of the sandbox.
SHARED: dict[str, tuple[int | None, int | None]] = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
CLONE, PERSONALITY, IOCTL = (56, 220), (135, 92), (16, 29)
SOCKET, SOCKETPAIR, PRLIMIT = (41, 198), (53, 199), (302, 261)
NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
COMMON_PERSONALITIES = (0, 0xFFFFFFFF)  # plain Linux, and the question which one it is
TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX put words into the terminal of who started us
# Calls that give a file its mode: numbers, the argument that is the mode, the one that says whether a file is made.
MODES: dict[str, tuple[tuple[int | None, int | None], int, int | None]] = {
    "open": ((2, None), 2, 1),
    "openat": ((257, 56), 3, 2),
    "creat": ((85, None), 1, None),
    "chmod": ((90, None), 1, None),
    "fchmod": ((91, 52), 1, None),
    "fchmodat": ((268, 53), 2, None),
    "fchmodat2": ((452, 452), 2, None),
    "mkdir": ((83, None), 1, None),
    "mkdirat": ((258, 34), 2, None),
    "mknod": ((133, None), 1, None),
    "mknodat": ((259, 33), 2, None),
}
OTHER_RIGHTS = 0o6000  # set-user-id, set-group-id: a program that root's job leaves would run as root for any user
CREATES = 0x400040  # O_CREAT, and O_TMPFILE without O_DIRECTORY
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
ROUTES = 0  # a protocol of AF_NETLINK

LOAD, AND, EQUAL, GREATER, ANY_BIT, RETURN = 0x20, 0x54, 0x15, 0x25, 0x45, 0x06
NUMBER, ARCHITECTURE = 0, 4  # offsets in struct seccomp_data
ALLOW, ERROR = 0x7FFF0000, 0x00050000

Instruction = tuple[int, int, int, int]


def build_filter(*, shared: bool = False, inet: bool = True, machine: str = os.uname().machine) -> bytes:
    """An array of struct sock_filter; b"" on an architecture that has no list here.

    `shared`: the job shares its namespaces with others, and may use nothing of System V. `inet`: it may use TCP and UDP.
    """
    if machine not in ARCHITECTURES:
        return b""
    column, audit = ARCHITECTURES[machine]
    refused = {**REFUSED, **SHARED} if shared else REFUSED
    steps = [load_word(ARCHITECTURE), *if_not_match(EQUAL, audit, [return_errno(errno.ENOSYS)]), load_word(NUMBER)]
    steps += if_match(GREATER, LAST, [return_errno(errno.ENOSYS)])  # x32's numbers are all beyond it
    for table, answer in ((refused, errno.EPERM), (UNKNOWN, errno.ENOSYS)):
        for row in table.values():
            if (number := row[column]) is not None:
                steps += if_match(EQUAL, number, [return_errno(answer)])
    bodies: dict[tuple[int | None, int | None], list[Instruction]] = {
        CLONE: [argument(0), *if_match(ANY_BIT, NAMESPACES, [return_errno(errno.EPERM)]), return_allow()],
        PERSONALITY: [argument(0), *allow_only(COMMON_PERSONALITIES), return_errno(errno.EPERM)],
        IOCTL: [argument(1), *if_any(TERMINAL_INPUT, [return_errno(errno.EPERM)]), return_allow()],
        SOCKET: [
            argument(0),
            *allow_only((UNIX,)),
            *(allow_internet() if inet else []),
            return_errno(errno.EAFNOSUPPORT),
        ],
        SOCKETPAIR: [argument(0), *allow_only((UNIX,)), return_errno(errno.EAFNOSUPPORT)],
    }
    if shared:
        bodies[PRLIMIT] = [argument(0), *allow_only((0,)), return_errno(errno.EPERM)]
    bodies |= {numbers: refuse_setuid_modes(mode, flags) for numbers, mode, flags in MODES.values()}
    for row, body in bodies.items():
        if (number := row[column]) is not None:
            steps += if_match(EQUAL, number, body)
    return b"".join(struct.pack("=HBBI", *step) for step in (*steps, return_allow()))


def load_word(offset: int) -> Instruction:
    """A word of struct seccomp_data."""
    return LOAD, 0, 0, offset


def argument(index: int) -> Instruction:
    """The lower half of an argument: the kernel looks at no more of these."""
    return load_word(16 + 8 * index)


def if_match(test: int, value: int, body: list[Instruction]) -> list[Instruction]:
    """`body`, which returns, if the loaded word passes."""
    return [(test, 0, len(body), value), *body]


def if_not_match(test: int, value: int, body: list[Instruction]) -> list[Instruction]:
    """`body`, which returns, if the loaded word fails."""
    return [(test, len(body), 0, value), *body]


def if_any(values: tuple[int, ...], body: list[Instruction]) -> list[Instruction]:
    """`body`, which returns, if the loaded word is one of these."""
    return [step for value in values for step in if_match(EQUAL, value, body)]


def allow_only(values: tuple[int, ...]) -> list[Instruction]:
    """Allow these; goes on with the others."""
    return if_any(values, [return_allow()])


def allow_internet() -> list[Instruction]:
    """Allow TCP and UDP, and AF_NETLINK's routes, which getaddrinfo asks for."""
    return [
        *allow_only((INET, INET6)),
        *if_match(EQUAL, NETLINK, [argument(2), *allow_only((ROUTES,)), return_errno(errno.EAFNOSUPPORT)]),
    ]


def refuse_setuid_modes(mode: int, flags: int | None) -> list[Instruction]:
    """Refuse to make a program that runs with its owner's rights."""
    looked = [argument(mode), *if_match(ANY_BIT, OTHER_RIGHTS, [return_errno(errno.EPERM)]), return_allow()]
    return looked if flags is None else [argument(flags), *if_match(ANY_BIT, CREATES, looked), return_allow()]


def return_allow() -> Instruction:
    """The call goes on."""
    return RETURN, 0, 0, ALLOW


def return_errno(number: int) -> Instruction:
    """The call returns this errno."""
    return RETURN, 0, 0, ERROR | number


def open_filter(filter_program: bytes) -> int:
    """A descriptor from which to read it."""
    handle = os.memfd_create("filter")
    os.write(handle, filter_program)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle
