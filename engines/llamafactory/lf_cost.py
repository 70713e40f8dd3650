"""What a training costs by its own clocks: `cost.json` in the output folder, which a forecast is made from.

Clocks are pairs: CPU seconds of this process with all its threads, and seconds that passed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lf_checkpoints import write
from transformers import TrainerCallback

COST = "cost.json"
SHORT = 10  # steps of a smoke run: the first so many are told one by one, and of a run no longer every row's length


class Meter(TrainerCallback):
    """Asked by the trainer; one a process."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, float, float]] = []
        self.dataset = self.between = self.save = (0.0, 0.0)
        self.lengths: list[int] = []
        self.tokens, self.mark, self.ended = 0, clocks(), clocks()

    def fetching(self) -> None:
        """The rows of the next step are about to be fetched; what came after the last step is no part of it."""
        self.mark = clocks()
        if self.steps:
            self.between = plus(self.between, since(self.ended))

    def fed(self, inputs: dict[str, Any]) -> None:
        """One batch of a step, padded as it is."""
        rows = inputs.get("input_ids")
        self.tokens += rows.numel() if rows is not None else 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Row lengths, of a smoke run only: what a full run's batches will be like."""
        rows = getattr(kwargs.get("train_dataloader"), "dataset", None)
        if state.max_steps <= SHORT and hasattr(rows, "__len__"):
            self.lengths = [len(ids) for ids in rows["input_ids"]]

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """A step is over when the device has done it."""
        if len(self.steps) < SHORT:
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
            self.steps.append((self.tokens, *since(self.mark)))
        self.tokens, self.ended = 0, clocks()

    def timed(self, load: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, its time noted as that of reading and tokenizing the data."""

        def loaded(*args: Any, **kwargs: Any) -> Any:
            began = clocks()
            found = load(*args, **kwargs)
            self.dataset = since(began)
            return found

        return loaded

    def tell(self, out: Path) -> None:
        """Write it down; `whole`: everything so far, imports included where the process made them itself.

        The other processes of the training computed as long, on as many tokens.
        """
        many = int(os.environ.get("WORLD_SIZE", "1"))
        value = {
            "whole": [many * time.process_time(), age()],
            "dataset": [many * self.dataset[0], self.dataset[1]],
            "steps": [[many * tokens, many * cpu, seconds] for tokens, cpu, seconds in self.steps],
            "between": [many * self.between[0], self.between[1]],
            "save": self.save,
            "lengths": self.lengths,
            "memory": many * most_resident(),
            "device_memory": device_memory(),
        }
        write(out / COST, value)


def clocks() -> tuple[float, float]:
    """CPU seconds of this process, and a clock."""
    return time.process_time(), time.monotonic()


def since(mark: tuple[float, float]) -> tuple[float, float]:
    """What passed on both."""
    now = clocks()
    return now[0] - mark[0], now[1] - mark[1]


def plus(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """The sum on both."""
    return one[0] + other[0], one[1] + other[1]


def age() -> float:
    """Seconds since this process was forked."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def most_resident() -> int:
    """Bytes that this process had at most; a fork of a warm engine begins with the pages that both share."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def device_memory() -> dict[str, int] | None:
    """Bytes of the accelerator that tensors took at most, and that PyTorch held for them; None without one."""
    if not torch.cuda.is_initialized():
        return None
    return {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}


METER = Meter()
