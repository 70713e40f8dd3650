"""Something that may go, and its removal while its owner's lock is held."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import take
from tuneloop.tools.cleaning.look import look
from tuneloop.tools.disk import bytes_below, remove

Kind = Literal["leftovers", "caches", "scratch", "models", "runs", "evaluations", "engines"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Find:
    """`paths` go while `locks` are held; `act`, where given, removes them instead; `run`: no job of it may live."""

    kind: Kind
    what: str
    paths: tuple[Path, ...]
    why: str
    locks: tuple[Path, ...] = ()
    run: RunFolder | None = None
    act: Callable[[], None] | None = None

    @property
    def bytes(self) -> int:
        """On disk, now."""
        return sum(map(bytes_below, self.paths))


@dataclass(frozen=True)
class Wanted:
    """What was asked for: one run, runs and evaluations untouched for `older` seconds, engines that nobody needs."""

    run: RunFolder | None = None
    older: float | None = None
    engines: bool = False


def clear(find: Find) -> int:
    """Remove it and return the bytes freed; 0 when its owner came to life meanwhile."""
    with ExitStack() as held:
        if not all(held.enter_context(sole(lock)) for lock in find.locks):
            return 0
        if find.run is not None and look(find.run.root, ignore=find.run.lock).alive:
            return 0
        before = find.bytes
        if find.act is not None:
            find.act()
        else:
            for path in find.paths:
                remove(path)
        return before - find.bytes


@contextmanager
def sole(lock: Path) -> Iterator[bool]:
    """Whether the lock could be taken, then held; a lock file that is not there has no owner and is not made."""
    try:
        handle = os.open(lock, os.O_RDWR)
    except FileNotFoundError:
        yield True
        return
    try:
        yield take(handle)
    finally:
        os.close(handle)
