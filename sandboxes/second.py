"""A second process for our own work: a module of this package that reads arguments and answers on its output."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Second:
    """A process that works beside this one."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child

    def answer(self) -> bytes | None:
        """Wait for what it says; None when it failed or was killed: then the work is still to be done."""
        said, _ = self._child.communicate()
        return said if self._child.returncode == 0 else None


@contextmanager
def second(module: str, *words: str) -> Iterator[Second]:
    """Run `python -m module words` on the same code; it is ended when the block is left."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONSAFEPATH": "1"}
    child = subprocess.Popen(
        [sys.executable, "-m", module, *words],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield Second(child)
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()
