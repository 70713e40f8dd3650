"""A trial: run Python code in each kind of sandbox and look at what it did."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tuneloop.core.job import Command, Exit, Limits, Sandbox
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox, probe_bubblewrap
from tuneloop.sandboxes.jobs import wait
from tuneloop.sandboxes.process import ProcessSandbox

KINDS = {"process": ProcessSandbox, "bubblewrap": BubblewrapSandbox}
BEAT = """
import os, sys, time
def beat(name):
    while True:
        with open(name, "a") as f: f.write("x")
        time.sleep(0.02)
"""


@dataclass
class Trial:
    """One sandbox, a work folder that jobs may write, and a folder for jobs."""

    sandbox: Sandbox
    root: Path

    @property
    def work(self) -> Path:
        return self.root / "work"

    def command(self, code: str, **fields: Any) -> Command:
        fields = {"cwd": str(self.work), "write": (str(self.work),), **fields}
        fields["read"] = (sys.prefix, sys.base_prefix, *fields.get("read", ()))
        fields["limits"] = Limits(**{"seconds": 30, **fields.get("limits", {})})
        return Command(argv=(sys.executable, "-I", "-S", "-c", code), **fields)

    def start(self, code: str, name: str = "job", **fields: Any) -> Path:
        folder = self.root / "jobs" / name
        self.sandbox.start(folder, self.command(code, **fields))
        return folder

    def run(self, code: str, name: str = "job", **fields: Any) -> tuple[Exit, str]:
        folder = self.start(code, name, **fields)
        done = wait(self.sandbox, folder, every=0.01)
        return done, (folder / "log.txt").read_text()

    def beats(self, name: str = "beat") -> bool:
        """Whether somebody still writes to `name`."""
        before = (self.work / name).stat().st_size
        time.sleep(0.15)
        return (self.work / name).stat().st_size > before


def until(what: Callable[[], Any], seconds: float = 10) -> Any:
    """Wait until `what()` is true and return it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := what():
            return found
        time.sleep(0.01)
    raise AssertionError("did not come true in time")


def keeper(folder: Path) -> int:
    """Pid of the job's keeper, once it said it."""
    return int(until((folder / "lock").read_text))


@pytest.fixture(params=sorted(KINDS))
def trial(request: pytest.FixtureRequest, tmp_path: Path) -> Trial:
    if request.param == "bubblewrap" and (problem := probe_bubblewrap()):
        pytest.skip(problem)
    (tmp_path / "work").mkdir()
    return Trial(KINDS[request.param](), tmp_path)


@pytest.fixture
def needs(trial: Trial) -> Callable[[str], None]:
    """Skip where the sandbox does not claim the power."""

    def ask(power: str) -> None:
        if power not in trial.sandbox.powers:
            pytest.skip(f"{trial.sandbox.kind} does not claim {power}")

    return ask
