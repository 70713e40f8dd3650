"""A run whose machine is lost goes on elsewhere from its copy in object storage, which holds nothing of the sealed test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.object_store import Store
from tests.waiting import until
from tuneloop.core.layout import Home, RunFolder
from tuneloop.tools.runs.fork import fork_run

from .test_canaries import PLANTED, plant
from .world import RUN

FIRST = "experiments/001/experiment.json"


def test_another_machine_goes_on_from_the_copy(new_place, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    store, first, other = Store(f"file://{tmp_path}/store"), new_place("lost"), new_place("found")
    plant(first.task)
    first.loops, other.task = 2, first.task
    first.env = other.env = {"TUNELOOP_STORAGE": store.url, "FT_BENCHMARK_LIMIT": "40"}
    pid = first.start()
    until(lambda: f"runs/{RUN}/manifest.json" in store.objects() or first.over(pid) is not None, 900, 0.5)
    os.kill(pid, signal.SIGKILL)
    first.wait(pid)
    assert json.loads(store.get(f"runs/{RUN}/manifest.json"))["experiments"] == 1, first.said()

    def tuneloop(*words: str) -> str:
        env = {**os.environ, "FT_FILE_PATH": str(other.home), "TUNELOOP_STORAGE": store.url}
        argv = [sys.executable, "-m", "tuneloop.cli.main", *words]
        return subprocess.run(argv, env=env, capture_output=True, text=True, cwd=tmp_path).stdout

    assert "to be looked at" in tuneloop("pull", RUN)
    assert "promoted" in tuneloop("status", RUN, "--all")
    assert f"to go on: tuneloop resume {RUN}" in tuneloop("pull", RUN, "--trust-folder")
    assert f"{first.home}/" not in (other.run / "setup.json").read_text(), "nothing leads to the lost machine"
    other.finish()
    assert (other.run / FIRST).read_bytes() == (first.run / FIRST).read_bytes()
    assert len(json.loads((other.run / "report.json").read_text())["experiments"]) == 2
    assert fork_run(Home(other.home), RunFolder(other.run), 2, "f", loop_n=1, timeout=None, after_test=True)
    copied = b"".join(store.get(key) for key in store.objects()).decode(errors="replace")
    assert [name for name, *_ in PLANTED if name in copied] == []
