"""What tuneloop is to jobs on a cluster: launches those of a folder and goes on with them until all are done. May be killed.

`cluster_driver.py EXECUTOR FOLDER FENCE`: each `NAME.json` there is a command; `NAME.done` is written when its job is over.
Seconds are shorter than in use, in the same proportions.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tuneloop.core.errors import InfrastructureError
from tuneloop.core.files import read_model
from tuneloop.core.job import Command, Sandbox
from tuneloop.core.settings import Settings
from tuneloop.sandboxes import cluster
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox
from tuneloop.sandboxes.choose import open_executor
from tuneloop.sandboxes.jobs import is_conclusive, launch

AT_ONCE = 6


def shorten(fence: float) -> None:
    """The runner's patience and this side's."""
    path, rest = cluster.BOOT.split("; from", 1)
    cluster.BOOT = (
        f"{path}; import tuneloop.sandboxes.node_runner as r; r.BEAT, r.FENCE = {fence / 6}, {fence}; from{rest}"
    )
    cluster.OFTEN, cluster.SELDOM, cluster.SUBMIT_SECONDS = 0.5, 4.0, fence
    cluster.LOST = cluster.BEGINS = 2 * fence


def finish(sandbox: Sandbox, file: Path) -> None:
    """Launch until it is over, as a run and its `resume` do."""
    while True:
        try:
            folder = launch(sandbox, file.parent / "jobs", file.stem, read_model(file, Command))
            while (status := sandbox.poll(folder)).state == "running":
                time.sleep(0.1)
            if status.exit is not None and is_conclusive(status.exit, retry=False):
                file.with_suffix(".done").write_text(status.exit.model_dump_json())
                return
        except (InfrastructureError, OSError) as e:
            print(f"{file.stem}: {e}", flush=True)  # noqa: T201
            time.sleep(1)


def main(executor: str, place: Path) -> None:
    """Until nothing is to be done."""
    sandbox = open_executor(executor, BubblewrapSandbox(), Settings())  # type: ignore[arg-type]
    begun = set[Path]()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while True:
            for file in sorted(set(place.glob("*.json")) - begun):
                begun.add(file)
                if not file.with_suffix(".done").exists():
                    pool.submit(finish, sandbox, file)
            time.sleep(0.2)


if __name__ == "__main__":
    shorten(float(sys.argv[3]))
    main(sys.argv[1], Path(sys.argv[2]))
