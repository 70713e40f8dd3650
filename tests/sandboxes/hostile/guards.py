"""How each guard is taken out of a sandbox: to be held by nothing else is what an attack's declaration claims."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tuneloop.core.job import Command, Sandbox
from tuneloop.sandboxes import local
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox
from tuneloop.sandboxes.local import Wrapped

Words = list[str]
Change = Callable[[Words, Path], Words]


def without(words: Words, option: str, arguments: int = 0, *, of: str = "") -> Words:
    """Without every such option, or those whose first argument begins with `of`."""
    found, i = [], 0
    while i < len(words):
        if words[i] == option and (not of or words[i + 1].startswith(of)):
            i += 1 + arguments
            continue
        found.append(words[i])
        i += 1
    return found


def exchanged(words: Words, old: str, new: str, *, of: str) -> Words:
    """Another option with the same arguments."""
    pairs = zip(words, [*words[1:], ""], strict=True)
    return [new if word == old and after.startswith(of) else word for word, after in pairs]


def mounted(words: Words, option: str, place: str) -> Words:
    """One more mount, before the root becomes read-only."""
    last = max(i for i, word in enumerate(words[:-1]) if word == "--remount-ro" and words[i + 1] == "/")
    return [*words[:last], option, place, place, *words[last:]]


def shared_devices(words: Words, root: Path) -> Words:
    """The machine's own devices."""
    rest = without(without(words, "--dev", 1), "--tmpfs", 1, of="/dev/shm")
    rest = without(without(rest, "--size", 1), "--remount-ro", 1, of="/dev")
    return mounted(rest, "--dev-bind", "/dev")


def every_right(words: Words, root: Path) -> Words:
    """Capabilities are kept."""
    return [*without(words, "--cap-drop", 1), "--cap-add", "ALL"]


def same_user(words: Words, root: Path) -> Words:
    """The starter's own identity."""
    for option, arguments in (("--unshare-user", 0), ("--disable-userns", 0), ("--uid", 1), ("--gid", 1)):
        words = without(words, option, arguments)
    return words


def own_name(words: Words, root: Path) -> Words:
    """The machine's host name."""
    return without(without(words, "--unshare-uts"), "--hostname", 1)


def own_folder(words: Words, root: Path) -> Words:
    """The job's folder, where one around it is listed."""
    place = str(root / "jobs/")
    return without(without(words, "--tmpfs", 1, of=place), "--remount-ro", 1, of=place)


BUBBLEWRAP: dict[str, Change] = {
    "mounts": lambda words, root: mounted(words, "--bind", str(root)),
    "read-only": lambda words, root: exchanged(words, "--ro-bind", "--bind", of=str(root)),
    "own folder": own_folder,
    "devices": shared_devices,
    "capabilities": every_right,
    "user namespace": same_user,
    "nested namespaces": lambda words, root: without(words, "--disable-userns"),
    "pid namespace": lambda words, root: without(words, "--unshare-pid"),
    "ipc namespace": lambda words, root: without(words, "--unshare-ipc"),
    "host name": own_name,
    "network": lambda words, root: without(words, "--unshare-net"),
    "kernel settings": lambda words, root: without(words, "--ro-bind", 2, of="/proc/sys"),
    "sys": lambda words, root: mounted(words, "--bind", "/sys"),
    "system calls": lambda words, root: without(words, "--seccomp", 1),
}


class Weakened(BubblewrapSandbox):
    """bubblewrap without some of its guards."""

    def __init__(self, changes: list[Change], root: Path) -> None:
        self.changes, self.root = changes, root

    def wrap(self, folder: Path, command: Command, lock: int) -> Wrapped:
        """The same command line, changed."""
        whole = super().wrap(folder, command, lock)
        border = whole.argv.index("--")
        words = list(whole.argv[:border])
        for change in self.changes:
            words = change(words, self.root)
        return replace(whole, argv=(*words, *whole.argv[border:]))


@contextmanager
def own_environment() -> Iterator[None]:
    """The starter's environment reaches the job."""
    kept = local.environment
    with patch.object(local, "environment", lambda command: {**os.environ, **kept(command)}):
        yield


@contextmanager
def own_descriptors() -> Iterator[None]:
    """The starter's open files reach the job."""
    run = subprocess.run

    def open_handed(argv: Any, **fields: Any) -> Any:
        fields.pop("pass_fds")
        return run(argv, close_fds=False, **fields)

    def handed(argv: Any, **fields: Any) -> Any:
        for number in fields["pass_fds"]:
            os.set_inheritable(number, True)
        return open_handed(argv, **fields)

    with patch.object(subprocess, "run", handed):
        yield


@contextmanager
def own_keyring() -> Iterator[None]:
    """The starter's session keyring reaches the job."""
    path, rest = local.BOOT.split("; from", 1)
    with patch.object(local, "BOOT", f"{path}; import tuneloop.sandboxes.spawn as s; s.KEYCTL = None; from{rest}"):
        yield


AROUND = {"environment": own_environment, "descriptors": own_descriptors, "keyring": own_keyring}
KINDS: dict[str, Callable[[list[str], Path], Sandbox]] = {
    "bubblewrap": lambda guards, root: Weakened([BUBBLEWRAP[guard] for guard in guards], root)
}


@contextmanager
def taken_out(kind: str, guards: tuple[str, ...], root: Path) -> Iterator[Sandbox]:
    """The sandbox without these guards, for an arena in `root`."""
    with ExitStack() as stack:
        for guard in guards:
            if guard in AROUND:
                stack.enter_context(AROUND[guard]())
        yield KINDS[kind]([guard for guard in guards if guard not in AROUND], root)
