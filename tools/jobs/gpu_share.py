"""GPUs of an experiment beside others: written into its folder, and its jobs see no others."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_model, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.sandboxes.local import gpu_memory
from tuneloop.tools.jobs.machine import find_device

FILE = "gpus.json"


def check_gpus(spec: RunSpec) -> None:
    """Raises InvalidRequestError where experiments side by side would have to share a GPU."""
    if spec.parallel > 1 and spec.executor == "local" and find_device() != "cpu" and len(gpu_memory()) < spec.parallel:
        raise InvalidRequestError(
            f"--parallel {spec.parallel}: each experiment needs a GPU of its own, and this machine has {len(gpu_memory())}"
        )


def assign_gpus(run: RunFolder, number: int, others: Iterable[int], slots: int) -> None:
    """Give an experiment its share of the GPUs, the same as long as it is open: a job may hold them already."""
    gpus = sorted(gpu_memory())
    share = max(1, len(gpus) // slots)
    groups = [gpus[first : first + share] for first in range(0, share * slots, share)]
    taken = [assigned(run.experiment(other).root) for other in others]
    if assigned(run.experiment(number).root) not in groups:
        free = next((group for group in groups if group and group not in taken), gpus)
        write_json(run.experiment(number).root / FILE, free)


def assigned(experiment: Path) -> list[int]:
    """The GPUs of an experiment; []: all of them."""
    file = experiment / FILE
    return read_model(file, list[int]) if file.is_file() else []


def gpu_environment(jobs: Path) -> dict[str, str]:
    """What of a job's environment says which GPUs are its own; `jobs`: the folder of the experiment's jobs."""
    own = assigned(jobs.parent)
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, own))} if own else {}
