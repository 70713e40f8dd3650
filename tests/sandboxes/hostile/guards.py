"""How each guard is taken out of a sandbox: to be held by nothing else is what an attack's declaration claims."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tuneloop.core.job import Command, Sandbox
from tuneloop.sandboxes import container, docker, local
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox
from tuneloop.sandboxes.local import WrappedCommand

from .declare import Attack

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


Body = dict[str, Any]
BodyChange = Callable[[Body, Path], None]


def set_host(**values: Any) -> BodyChange:
    """Other settings of the container."""

    def change(body: Body, root: Path) -> None:
        body["HostConfig"].update(values)

    return change


def with_mount(place: str) -> BodyChange:
    """One more folder of the machine."""

    def change(body: Body, root: Path) -> None:
        body["HostConfig"]["Mounts"].append({"Type": "bind", "Source": place, "Target": place, "ReadOnly": False})

    return change


def with_arena(body: Body, root: Path) -> None:
    """All of the arena, in one mount."""
    mounts = body["HostConfig"]["Mounts"]
    body["HostConfig"]["Mounts"] = [mount for mount in mounts if not mount["Target"].startswith(str(root))]
    with_mount(str(root))(body, root)


def open_given(body: Body, root: Path) -> None:
    """The arena's folders are writable."""
    for mount in body["HostConfig"]["Mounts"]:
        mount["ReadOnly"] = mount["ReadOnly"] and not mount.get("Source", "").startswith(str(root))


def open_own(body: Body, root: Path) -> None:
    """The job's folder, where one around it is listed."""
    mounts = body["HostConfig"]["Mounts"]
    body["HostConfig"]["Mounts"] = [
        m for m in mounts if not (m["Type"] == "tmpfs" and m["Target"].startswith(str(root)))
    ]


def as_root(body: Body, root: Path) -> None:
    """Containers have no user namespace here: the jobs' own user stands for it. The pipes are that user's."""
    body["User"] = "0:0"
    body["HostConfig"]["CapAdd"] = [*body["HostConfig"].get("CapAdd", []), "DAC_OVERRIDE"]


def no_filter(body: Body, root: Path) -> None:
    """All system calls."""
    body["HostConfig"]["SecurityOpt"] = [*body["HostConfig"]["SecurityOpt"], "seccomp=unconfined"]
    body["HostConfig"]["SecurityOpt"] = [
        word
        for word in body["HostConfig"]["SecurityOpt"]
        if not word.startswith("seccomp=") or word.endswith("unconfined")
    ]


def both(*changes: BodyChange) -> BodyChange:
    """One after the other."""

    def change(body: Body, root: Path) -> None:
        for one in changes:
            one(body, root)

    return change


# All that matter here: a daemon cannot give what it has not itself.
RIGHTS = ["SYS_ADMIN", "SYS_PTRACE", "MKNOD", "NET_RAW", "KILL", "SYS_NICE", "CHOWN", "FOWNER"]
UNMASKED = set_host(MaskedPaths=[], ReadonlyPaths=[])
DOCKER: dict[str, BodyChange] = {
    "mounts": with_arena,
    "read-only": both(open_given, as_root),
    "own folder": open_own,
    "devices": both(set_host(IpcMode="none"), with_mount("/dev/shm")),
    "capabilities": set_host(CapDrop=[], CapAdd=RIGHTS),
    "user namespace": as_root,
    "nested namespaces": lambda body, root: None,  # the filter of system calls alone holds them
    "kernel settings": both(UNMASKED, as_root),
    "proc": both(UNMASKED, as_root),
    "sys": both(with_mount("/sys"), as_root),
    "system calls": no_filter,
    "keyring": lambda body, root: None,
}
# Why a guard of containers is not taken out.
KEPT = {
    # Never try: it would be every process of this machine.
    "pid namespace": "a container's first process ends everybody it sees when the job is over",
    "network": "the only other network is the machine's own, and nothing may leave the machine",
    "host name": "the only other name is the machine's own",
    "ipc namespace": "the only other segments are the machine's own",
    "descriptors": "containers are the daemon's children, nothing is inherited from the supervisor",
    "keyring": "runc gives every container a keyring of its own, and cannot be told not to",
}


@contextmanager
def container_without(guards: list[str], root: Path) -> Iterator[Sandbox]:
    """Docker without some of its guards."""
    whole = container.container_config

    def changed(*given: Any, **named: Any) -> Body:
        body = whole(*given, **named)
        for guard in guards:
            DOCKER[guard](body, root)
        return body

    filtered = "system calls" not in guards
    with patch.object(docker, "container_config", changed), nullcontext() if filtered else own_calls():
        yield docker.DockerSandbox()


@contextmanager
def own_calls() -> Iterator[None]:
    """Our filter of system calls is empty."""
    with patch.object(docker, "build_filter", lambda **_: b""):
        yield


@contextmanager
def booted(word: str) -> Iterator[None]:
    """Supervisors begin with this statement."""
    path, rest = local.BOOT.split("; from", 1)
    with patch.object(local, "BOOT", f"{path}; {word}; from{rest}"):
        yield


class Weakened(BubblewrapSandbox):
    """bubblewrap without some of its guards."""

    def __init__(self, changes: list[Change], root: Path) -> None:
        self.changes, self.root = changes, root

    def wrap(self, folder: Path, command: Command, lock: int) -> WrappedCommand:
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
    with booted("import tuneloop.sandboxes.spawn as s; s.KEYCTL = None"):
        yield


AROUND = {"environment": own_environment, "descriptors": own_descriptors, "keyring": own_keyring}


def removable(kind: str, attack: Attack) -> bool:
    """Whether all that holds an attack can be taken out of a kind of sandbox."""
    return kind not in attack.kept and not (kind == "docker" and KEPT.keys() & set(attack.guards))


@contextmanager
def taken_out(kind: str, guards: tuple[str, ...], root: Path) -> Iterator[Sandbox]:
    """The sandbox without these guards, for an arena in `root`."""
    with ExitStack() as stack:
        for guard in guards:
            if guard in AROUND:
                stack.enter_context(AROUND[guard]())
        rest = [guard for guard in guards if guard not in AROUND]
        if kind == "docker":
            yield stack.enter_context(container_without(rest, root))
        else:
            yield Weakened([BUBBLEWRAP[guard] for guard in rest], root)
