"""How an attack is declared, and what its code is told. Standard library only: the hostile job imports it too."""

from __future__ import annotations

import ctypes
import json
import os
import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {  # system calls that glibc has no name for
    "x86_64": {"add_key": 248, "keyctl": 250, "perf_event_open": 298, "bpf": 321, "userfaultfd": 323},
    "aarch64": {"add_key": 217, "keyctl": 219, "perf_event_open": 241, "bpf": 280, "userfaultfd": 282},
}
NEW = {"io_uring_setup": 425, "pidfd_getfd": 438, "open_tree": 428, "fsopen": 430}  # the same everywhere


@dataclass(frozen=True)
class Aim:
    """What the job knows of one attack's targets; `host` is never listed for it, `given` only for reading."""

    name: str
    root: str
    job: str
    ports: dict[str, int] = field(default_factory=dict)
    abstract: str = ""
    victim: int = 0
    segment: int = 0
    host_name: str = ""

    @property
    def host(self) -> Path:
        """A folder of the machine that no job has a business in; `canary` lies there, and `agent.sock`."""
        return Path(self.root, "host", self.name)

    @property
    def given(self) -> Path:
        """A folder listed for reading: an engine, a base model, an evaluator."""
        return Path(self.root, "given", self.name)

    @property
    def work(self) -> Path:
        """A folder listed for writing."""
        return Path(self.root, "work", self.name)

    def loot(self, data: bytes | str) -> None:
        """Carry something home."""
        with (self.work / "loot").open("ab") as f:
            f.write(data.encode() if isinstance(data, str) else data)

    def steal(self, path: Path | str) -> None:
        """Carry home what is in a file."""
        self.loot(Path(path).read_bytes()[: 1 << 16])

    def through(self) -> None:
        """The job's own word, where nothing outside can show it."""
        self.loot("through")


Code = Callable[[Aim], None]


@dataclass(frozen=True)
class Attack:
    """`guards`: what holds it; where there are several, each holds it alone, and all have to go.

    `word`: only the job itself can tell. `victim`: it needs a process that does not belong to it. `kept`: why its guards
    cannot be taken out in a test, by kind of sandbox.
    """

    name: str
    code: Code
    guards: tuple[str, ...]
    word: bool = False
    victim: bool = False
    kept: dict[str, str] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """The module that it stands in."""
        return self.code.__module__.rpartition(".")[2]


CORPUS: dict[str, Attack] = {}


def attack(
    *guards: str, word: bool = False, victim: bool = False, kept: dict[str, str] | None = None
) -> Callable[[Code], Code]:
    """Enter a function into the corpus under its own name."""

    def enter(code: Code) -> Code:
        if code.__name__ in CORPUS:
            raise ValueError(f"two attacks are called {code.__name__}")
        CORPUS[code.__name__] = Attack(code.__name__, code, guards, word, victim, kept or {})
        return code

    return enter


def aims(text: str) -> Iterable[Aim]:
    """Those that an arena wrote down."""
    return (Aim(**given) for given in json.loads(text))


def call(name: str, *arguments: object) -> int:
    """A system call by name. Raises OSError."""
    number = NEW.get(name) or NUMBERS[platform.machine()][name]
    # An int of C would leave half of what lies on the stack undefined.
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    return checked(libc.syscall(ctypes.c_long(number), *words), name)


def checked(result: int, what: str) -> int:
    """The result of a C call. Raises OSError."""
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)
    return result
