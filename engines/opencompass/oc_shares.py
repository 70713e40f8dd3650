"""One evaluation by several processes, one for each GPU: each answers its share of the batches, the first one scores.

The batches are those of one process, so transformers' answers are the same on any number. Shares are handed over as files
under the result's key: a sandbox may have no sockets, and after a kill a share that was finished is not answered again.
A model too large for one GPU is spread over all of them by one process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import torch

ASKED = "NPROC_PER_NODE"  # how many processes, as of a training; on a CPU there is one without it
ROOM = 0.75  # of a GPU's memory that weights may take; the rest is for keys and values
LOOK = 0.02
WORDS = 4000  # characters of an ended process's log that are said again


class Shares:
    """This process's place among `count`; `spread`: GPUs that its model lies on."""

    def __init__(self) -> None:
        self.rank, self.count, self.spread = 0, 1, 1
        self.others: dict[int, int] = {}  # of the first process: rank and process id
        self.running: set[int] = set()
        self.place = Path()

    def start(self, job: dict[str, Any]) -> None:
        """From here on several processes run where there are several GPUs: forks, so CUDA must not have begun."""
        gpus = visible_gpus(job)
        self.count, self.spread = split(job, len(gpus))
        for rank in range(1, self.count):
            if not (pid := os.fork()):
                self.rank, self.others = rank, {}
                log = os.open(own_log(rank), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
                os.dup2(log, 1)
                os.dup2(log, 2)
                break
            self.others[rank] = pid
        self.running = set(self.others)
        if gpus and self.spread == 1:
            os.environ["CUDA_VISIBLE_DEVICES"] = gpus[self.rank]

    def begin(self, part: Path) -> None:
        """The next answers are those of the result that `part` will hold."""
        part.parent.mkdir(exist_ok=True)
        self.place = part

    def mine(self, number: int) -> bool:
        """Whether this process answers the batch of this number."""
        return number % self.count == self.rank

    def answers(
        self, total: int, make: Callable[[], dict[int, list[int]]], told: Callable[[int], None]
    ) -> list[list[int]]:
        """All answers in order, of which `make` makes this process's own; those of others only the first has."""
        found = self.kept(self.rank) if self.count > 1 else None
        if found is None:
            found = make()
            if self.count > 1:
                write_json(self.file(self.rank), found)
        for rank in self.others:
            while (share := self.kept(rank)) is None:
                if rank not in self.running:  # it ended and left none
                    self.fail(rank, 1)
                self.check()
                time.sleep(LOOK)
            told(len(share))
            found |= share
        return [found.get(number, []) for number in range(total)]

    def file(self, rank: int) -> Path:
        """Where a process leaves its share."""
        return self.place.with_suffix(f".{rank}-of-{self.count}")

    def kept(self, rank: int) -> dict[int, list[int]] | None:
        """A share that is whole; None where it is not there."""
        try:
            return {int(number): ids for number, ids in json.loads(self.file(rank).read_text()).items()}
        except (FileNotFoundError, ValueError):
            return None

    def drop(self) -> None:
        """The result is written: its shares may go."""
        for file in self.place.parent.glob(f"{self.place.stem}.*-of-*[0-9]"):
            file.unlink()

    def check(self) -> None:
        """Ends this process as one of the others that ended badly."""
        for rank in list(self.running):
            pid, status = os.waitpid(self.others[rank], os.WNOHANG)
            if pid:
                self.running.remove(rank)
            if status:
                self.fail(rank, os.waitstatus_to_exitcode(status))

    def fail(self, rank: int, code: int) -> NoReturn:
        """With the words of the process that ended; one that was killed ends the job as killed."""
        said = own_log(rank).read_text(errors="replace")[-WORDS:]
        print(f"{said}\nprocess {rank} of {self.count} ended first, with status {code}", flush=True)
        self.end()
        if code in (-signal.SIGKILL, -signal.SIGTERM):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        sys.exit(code if code > 0 else 128 - code)

    def end(self) -> None:
        """Nothing is left for the others to do."""
        for rank in self.running:
            os.kill(self.others[rank], signal.SIGKILL)
            os.waitpid(self.others[rank], 0)
        self.running = set()


SHARES = Shares()


def own_log(rank: int) -> Path:
    """What a process other than the first says, in the working directory."""
    return Path(f"rank-{rank}.log")


def visible_gpus(job: dict[str, Any]) -> list[str]:
    """Names of the GPUs that this evaluation may use; [] on a CPU. `gpus` of the job: at most so many."""
    if job["device"] == "cpu":
        return []
    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [name.strip() for name in named.split(",")] if named else list(map(str, range(count)))
    return names[: min(count, job.get("gpus") or count)]


def split(job: dict[str, Any], gpus: int) -> tuple[int, int]:
    """How many processes answer, and over how many GPUs each spreads its model."""
    weights = [weight_bytes(Path(model["path"])) for model in job["models"] if not model.get("replies")]
    if not weights:
        return 1, 1
    if asked := os.environ.get(ASKED):
        return int(asked), 1
    if gpus < 2 or max(weights) <= ROOM * smallest_memory(gpus):
        return max(1, gpus), 1
    print(f"{max(weights) >> 20} MiB of weights do not fit one GPU: the model is spread over {gpus}", flush=True)
    return 1, gpus


def weight_bytes(model: Path) -> int:
    """Bytes of a model's weights, as they are stored."""
    return sum(file.stat().st_size for file in model.glob("*.safetensors"))


def smallest_memory(gpus: int) -> int:
    """Bytes of the smallest of the first GPUs, asked in a fork: where CUDA has begun, no fork may use it."""
    read, write = os.pipe()
    if not (pid := os.fork()):
        sizes = [torch.cuda.get_device_properties(number).total_memory for number in range(gpus)]
        os.write(write, str(min(sizes)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        text = told.read()
    os.waitpid(pid, 0)
    return int(text)


def write_json(path: Path, value: Any) -> None:
    """All or nothing."""
    part = path.with_name(f"{path.name}.part")
    with part.open("w", encoding="utf-8") as f:
        json.dump(value, f, allow_nan=False)
        f.flush()
        os.fsync(f.fileno())
    part.replace(path)
