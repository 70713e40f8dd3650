"""One training as several processes of this machine, one for each GPU: started, watched and ended together.

torchrun would do it, but a job needs more: a stop lets every process save and ends with status 75, a killed process ends the
training as killed, and the log ends with the words of the process that failed first. The rows of an optimizer step stay
those of the config on any number of processes.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from torch.distributed import TCPStore

FORCED, ASKED = "FORCE_TORCHRUN", "NPROC_PER_NODE"  # LLaMA-Factory's own: several processes also without GPUs; how many
UNFINISHED = 75  # EX_TEMPFAIL: it ended on request; the next attempt goes on here
PROCESSES = "processes.json"  # in a checkpoint: how many made it, and whether its state is split over them
HOST = "127.0.0.1"
LEFT = 10.0  # seconds that the others have once one has ended badly
TICK = 0.1
WORDS = 4000  # characters of a failed process's log that are said again


def process_count(gpus: int, args: Mapping[str, Any]) -> int:
    """How many processes train: as many as are asked for, else one a GPU; fewer where the rows of a step cannot be shared evenly.

    Exits where more are asked for than there are GPUs.
    """
    asked = int(os.environ.get(ASKED) or max(1, gpus))
    if 0 < gpus < asked:
        sys.exit(f"error: {asked} processes of one training need {asked} GPUs, and this job has {gpus}")
    count = shares_evenly(rows_of_step(args), asked)
    if count < asked:
        print(f"{count} processes instead of {asked}: the {rows_of_step(args)} rows of a step divide by it", flush=True)
    return count


def rows_of_step(args: Mapping[str, Any]) -> int:
    """Rows of one optimizer step, as on one device."""
    return int(args.get("per_device_train_batch_size") or 8) * int(args.get("gradient_accumulation_steps") or 1)


def shares_evenly(rows: int, most: int) -> int:
    """The largest number of processes up to `most` that so many rows divide by."""
    return next(count for count in range(most, 0, -1) if rows % count == 0)


def own_share(args: dict[str, Any], count: int) -> dict[str, Any]:
    """The arguments of one of `count` processes: fewer batches of a step each, and where these are too few smaller ones."""
    batches = int(args.get("gradient_accumulation_steps") or 1)
    batch = int(args.get("per_device_train_batch_size") or 8)
    share = math.gcd(batches, count)
    return {
        **args,
        "gradient_accumulation_steps": batches // share,
        "per_device_train_batch_size": batch * share // count,
    }


def check_resumable(checkpoint: str, count: int) -> None:
    """Exits where the checkpoint's optimizer is split over another number of processes."""
    file = Path(checkpoint, PROCESSES)
    if checkpoint and file.is_file():
        made = json.loads(file.read_text())
        if made["split"] and made["count"] != count:
            sys.exit(
                f"error: {file.parent.name} is split over {made['count']} processes and cannot go on with {count}: "
                f"right is {made['count']} GPUs, or an empty output folder"
            )


def run_together(argv: Sequence[str], count: int, at_end: Callable[[], object] = lambda: None) -> NoReturn:
    """Run `argv` in this Python as `count` processes, call `at_end`, and end as the first that ended badly."""
    store = TCPStore(HOST, 0, is_master=True, wait_for_workers=False)
    together = Together(argv, count, store.port)
    signal.signal(signal.SIGTERM, together.stop)
    try:
        together.start()
        first = together.wait()
    finally:
        at_end()
    if first is None:
        sys.exit(0)
    code = together.processes[first].returncode
    if first:
        print(together.log(first).read_text(errors="replace")[-WORDS:], flush=True)
    if code != UNFINISHED:
        print(f"process {first} of {count} ended first, with status {code}", flush=True)
    if code in (-signal.SIGKILL, -signal.SIGTERM):  # as if it had been this one
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code if code > 0 else 128 - code)


class Together:
    """The processes; the log of the first is the job's, the others write `rank-N.log` in the working directory."""

    def __init__(self, argv: Sequence[str], count: int, port: int) -> None:
        self.argv, self.count = argv, count
        self.asked = False
        self.processes: list[subprocess.Popen[bytes]] = []
        # They find one another through this process's store, over the loopback interface and nothing else.
        names = (
            "TORCHELASTIC_USE_AGENT_STORE",
            "TORCHELASTIC_RESTART_COUNT",
            "GLOO_SOCKET_IFNAME",
            "NCCL_SOCKET_IFNAME",
        )
        self.env = {**os.environ, **dict(zip(names, ("True", "0", "lo", "lo"), strict=True))}
        self.env |= {"MASTER_ADDR": HOST, "MASTER_PORT": str(port)}
        self.env |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}

    def log(self, rank: int) -> Path:
        """What a process other than the first has said."""
        return Path(f"rank-{rank}.log")

    def start(self) -> None:
        """All of them."""
        for rank in range(self.count):
            env = {**self.env, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            with self.log(rank).open("wb") if rank else open(os.devnull, "wb") as file:  # noqa: PTH123
                out = file if rank else None
                argv = [sys.executable, *self.argv]
                self.processes.append(subprocess.Popen(argv, env=env, stdout=out, stderr=out))
        if self.asked:  # meanwhile
            self.stop()

    def stop(self, *_: object) -> None:
        """Ask every process to save and end: the handler of SIGTERM."""
        self.asked = True
        for process in self.processes:
            process.send_signal(signal.SIGTERM)

    def wait(self) -> int | None:
        """Until all have ended: the first that ended badly, None where none did. The others do not outlive it for long."""
        first, since = None, 0.0
        while alive := [process for process in self.processes if process.poll() is None]:
            first = self.failed() if first is None else first
            since = since or (time.monotonic() if first is not None else 0.0)
            stopped = self.processes[0].returncode == UNFINISHED  # and the others wait for their end
            if stopped or (since and time.monotonic() - since > LEFT):
                for process in alive:
                    process.kill()
            time.sleep(TICK)
        return self.failed() if first is None else first

    def failed(self) -> int | None:
        """One that ended badly so far; one that was asked to before others that cannot go on without it."""
        ended = [
            (process.returncode != UNFINISHED, rank)
            for rank, process in enumerate(self.processes)
            if process.returncode
        ]
        return min(ended)[1] if ended else None
