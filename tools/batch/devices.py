"""GPUs given out to the runs of a batch, by count and memory; no GPU is promised twice."""

from __future__ import annotations

from collections.abc import Mapping

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.formatting import format_size
from tuneloop.tools.batch.tasks import BatchTask


class Devices:
    """What is free of each GPU. Without GPUs every task gets none and starts at once."""

    def __init__(self, memory: Mapping[int, int]) -> None:
        """`memory`: bytes by GPU."""
        self.memory = dict(memory)
        self.free = dict(memory)
        self._held: dict[str, dict[int, int]] = {}

    def check(self, task: BatchTask) -> None:
        """Raises InvalidRequestError when all of them together would not do for this task."""
        if not self.memory:
            return
        if isinstance(task.gpus, tuple):
            missing = [one for one in task.gpus if one not in self.memory]
            if missing:
                raise InvalidRequestError(f"{task.run_id}: no GPU {missing[0]}; right are {_names(self.memory)}")
        large = [one for one in self._wanted(task) if self.memory[one] >= (task.device_memory or 0)]
        if len(large) < self._count(task):
            size = f" of {format_size(task.device_memory)}" if task.device_memory else ""
            known = f" (its largest has {format_size(max(self.memory.values()))})" if self.memory and size else ""
            raise InvalidRequestError(
                f"{task.run_id}: wants {self._count(task)} GPUs{size}, and this machine has {len(large)}{known}"
            )

    def take(self, task: BatchTask) -> tuple[int, ...] | None:
        """GPUs for a task, held until `give_back`; None while too few are free; () on a machine without GPUs."""
        if not self.memory:
            return ()
        wanted = [one for one in self._wanted(task) if self.free[one] >= self._share(task, one) > 0]
        # The fullest that fits first, so that whole GPUs stay free.
        chosen = sorted(sorted(wanted, key=lambda one: (self.free[one], one))[: self._count(task)])
        if len(chosen) < self._count(task):
            return None
        self.hold(task, tuple(chosen))
        return tuple(chosen)

    def hold(self, task: BatchTask, gpus: tuple[int, ...]) -> None:
        """Count these as taken by the task: of a run that goes on from before."""
        held = {one: self._share(task, one) for one in gpus if one in self.memory}
        self._held[task.run_id] = held
        for one, share in held.items():
            self.free[one] -= share

    def give_back(self, task: BatchTask) -> None:
        """The task's run is over."""
        for one, share in self._held.pop(task.run_id, {}).items():
            self.free[one] += share

    def _wanted(self, task: BatchTask) -> tuple[int, ...]:
        return task.gpus if isinstance(task.gpus, tuple) and task.gpus else tuple(self.memory)

    def _count(self, task: BatchTask) -> int:
        return task.gpus if isinstance(task.gpus, int) else len(task.gpus) or 1

    def _share(self, task: BatchTask, gpu: int) -> int:
        return task.device_memory or self.memory[gpu]


def _names(memory: Mapping[int, int]) -> str:
    return ", ".join(map(str, sorted(memory)))
