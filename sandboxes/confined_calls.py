"""A second filter of system calls, on top of `seccomp.py`'s, for jobs without namespaces: what mounts and networks held there.

Calls that change modes, owners, times or attributes seem to work and do nothing: Landlock has no rule for them, and
libraries that copy files make them on what is their own. One fails: setting a named file's times to now, by which
`Path.touch` asks whether the file is there.
"""

from __future__ import annotations

import errno
import os
import struct
from typing import Literal

from tuneloop.sandboxes import seccomp
from tuneloop.sandboxes.confinement import OWN
from tuneloop.sandboxes.landlock_rules import SCOPES_SINCE
from tuneloop.sandboxes.seccomp import (
    AND,
    ANY_BIT,
    EQUAL,
    Instruction,
    allow_only,
    argument,
    if_match,
    if_not_match,
    load_word,
    return_allow,
    return_errno,
)

Network = Literal["none", "listening", "own ports", "all"]
Numbers = tuple[int | None, int | None]  # on x86-64 and arm64; None where the architecture has no such call
Row = tuple[Numbers, list[Instruction]]
NO_EFFECT: dict[str, Numbers] = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
SET_TIMES: Numbers = (280, 88)
REFUSED: dict[str, Numbers] = {
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
    "process_mrelease": (448, 448),
    "memfd_secret": (447, 447),
    "vmsplice": (278, 75),
    "set_mempolicy_home_node": (450, 450),
}
# The argument that names a process, which may be 0, the caller, alone.
ON_ITSELF: dict[str, tuple[Numbers, int]] = {
    "sched_setaffinity": ((203, 122), 0),
    "sched_setscheduler": ((144, 119), 0),
    "sched_setparam": ((142, 118), 0),
    "sched_setattr": ((314, 274), 0),
    "setpriority": ((141, 140), 1),
    "ioprio_set": ((251, 30), 1),
}
SERVING: dict[str, Numbers] = {"bind": (49, 200), "listen": (50, 201)}
CONNECT: dict[str, Numbers] = {"connect": (42, 203)}
# Where Landlock does not keep signals inside: to the first process by its number, to the own group by 0, to nobody else.
SIGNALS: dict[str, tuple[Numbers, int]] = {
    "kill": ((62, 129), 0),
    "tgkill": ((234, 131), 0),
    "rt_sigqueueinfo": ((129, 138), 0),
    "rt_tgsigqueueinfo": ((297, 240), 0),
}
SIGNALS_WITHOUT_GROUP: dict[str, Numbers] = {"tkill": (200, 130), "pidfd_send_signal": (424, 424)}
# Where Landlock does not know of truncation: the call, and opening for reading that cuts.
TRUNCATE: dict[str, Numbers] = {"truncate": (76, 45)}
OPEN: dict[str, tuple[Numbers, int]] = {"open": ((2, None), 1), "openat": ((257, 56), 2)}
TRUNCATE_SINCE = 3
# TCP's fast open connects without asking Landlock. Calls with the argument that holds their flags.
SEND: dict[str, tuple[Numbers, int]] = {
    "sendto": ((44, 206), 3),
    "sendmsg": ((46, 211), 2),
    "sendmmsg": ((307, 269), 3),
}
FAST_OPEN, TCP = 0x20000000, 6
IOCTL_SET_FLAGS = (0x40086602, 0x401C5820)  # FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR: a file that nobody can remove
# Of pairs: datagrams could be sent to any named socket, and to AF_UNIX a raw socket is a datagram's.
STREAM, SEQPACKET, KIND = 1, 5, 0xF


def build_confined_filter(network: Network, abi: int, machine: str = os.uname().machine) -> bytes:
    """An array of struct sock_filter. `abi`: Landlock's release, whose gaps are closed here.

    The number `confinement.OWN` in it stands for the pid of the job's first process.
    """
    column, audit = seccomp.ARCHITECTURES[machine]
    steps = [load_word(seccomp.ARCHITECTURE), *if_not_match(EQUAL, audit, [return_errno(errno.ENOSYS)])]
    steps.append(load_word(seccomp.NUMBER))
    for numbers, body in (*plain_rows(abi, network), *rows_by_argument(abi), *socket_rows(network)):
        if (number := numbers[column]) is not None:
            steps += if_match(EQUAL, number, body)
    return b"".join(struct.pack("=HBBI", *step) for step in (*steps, return_allow()))


def plain_rows(abi: int, network: Network) -> list[Row]:
    """Calls whose arguments do not matter."""
    refused = dict(REFUSED)
    refused |= SERVING if network == "none" else CONNECT if network == "listening" else {}
    refused |= TRUNCATE if abi < TRUNCATE_SINCE else {}
    refused |= SIGNALS_WITHOUT_GROUP if abi < SCOPES_SINCE else {}
    found: list[Row] = [(numbers, [return_errno(0)]) for numbers in NO_EFFECT.values()]
    return found + [(numbers, [return_errno(errno.EPERM)]) for numbers in refused.values()]


def rows_by_argument(abi: int) -> list[Row]:
    """Calls that name a process, or open a file."""
    found = [(numbers, only(at, (0,))) for numbers, at in ON_ITSELF.values()]
    found += [(seccomp.IOCTL, refuse_words(1, IOCTL_SET_FLAGS)), (SET_TIMES, refuse_touch())]
    if abi < SCOPES_SINCE:
        found += [(numbers, only(at, (0, struct.unpack("=I", OWN)[0]))) for numbers, at in SIGNALS.values()]
    if abi < TRUNCATE_SINCE:
        found += [(numbers, refuse_truncating_reader(at)) for numbers, at in OPEN.values()]
    return found


def socket_rows(network: Network) -> list[Row]:
    """Which sockets can be made: none, an engine's own to listen at, TCP that Landlock sees, or the internet's.

    Pairs of this process's own always.
    """
    none = return_errno(errno.EAFNOSUPPORT)
    families = allow_only((seccomp.INET, seccomp.INET6)) if network == "all" else []
    if network == "all":
        routes = [argument(2), *allow_only((seccomp.ROUTES,)), none]
        families += if_match(EQUAL, seccomp.NETLINK, routes)
    if network == "listening":
        families = if_match(EQUAL, seccomp.UNIX, [argument(1), masked(KIND), *allow_only((SEQPACKET,)), none])
    if network == "own ports":
        streams = [masked(KIND), *if_match(EQUAL, STREAM, [argument(2), *allow_only((0, TCP)), none]), none]
        for family in (seccomp.INET, seccomp.INET6):
            families += if_match(EQUAL, family, [argument(1), *streams])
    pairs = [argument(1), masked(KIND), *allow_only((STREAM, SEQPACKET)), none]
    found: list[Row] = [
        (seccomp.SOCKET, [argument(0), *families, none]),
        (seccomp.SOCKETPAIR, [argument(0), *if_match(EQUAL, seccomp.UNIX, pairs), none]),
    ]
    fast = [*if_match(ANY_BIT, FAST_OPEN, [return_errno(errno.EOPNOTSUPP)]), return_allow()]
    return found + [(numbers, [argument(at), *fast]) for numbers, at in SEND.values() if network == "own ports"]


def only(at: int, values: tuple[int, ...]) -> list[Instruction]:
    """The call goes on where its argument is one of these."""
    return [argument(at), *allow_only(values), return_errno(errno.EPERM)]


def refuse_words(at: int, values: tuple[int, ...]) -> list[Instruction]:
    """The call is refused where its argument is one of these."""
    return [argument(at), *seccomp.if_any(values, [return_errno(errno.EPERM)]), return_allow()]


def refuse_touch() -> list[Instruction]:
    """A name and no times: EACCES; else nothing is done. A pointer whose lower half is 0 is taken for none."""
    named = [argument(1), *if_match(EQUAL, 0, [return_errno(0)]), return_errno(errno.EACCES)]
    return [argument(2), *if_match(EQUAL, 0, named), return_errno(0)]


def refuse_truncating_reader(at: int) -> list[Instruction]:
    """Only who opens for writing may truncate: the access mode 3 asks Landlock for no right."""
    writers = [masked(os.O_ACCMODE), *allow_only((os.O_WRONLY, os.O_RDWR)), return_errno(errno.EPERM)]
    return [argument(at), *if_match(ANY_BIT, os.O_TRUNC, writers), return_allow()]


def masked(bits: int) -> Instruction:
    """These bits of the loaded word."""
    return AND, 0, 0, bits
