"""GPUs of an experiment beside others: written into its folder, and its jobs see no others."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_model, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.local import gpu_memory
from tuneloop.sandboxes.slurm import node_count
from tuneloop.tools.config.installed import find_catalog
from tuneloop.tools.config.sharding import Devices
from tuneloop.tools.jobs.machine import find_device, physical_cores

FILE = "gpus.json"


def visible_gpus() -> list[int]:
    """Indices of the GPUs that CUDA_VISIBLE_DEVICES does not hide from this process.

    Raises InvalidRequestError where it names them otherwise: shares are made of indices.
    """
    there, named = sorted(gpu_memory()), os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return there
    try:
        own = {int(name) for name in named.split(",") if name.strip()}
    except ValueError as e:
        raise InvalidRequestError(
            f"CUDA_VISIBLE_DEVICES={named}: experiments side by side share GPUs by index; right is, say, 0,1"
        ) from e
    return [gpu for gpu in there if gpu in own]


def check_gpus(spec: RunSpec) -> None:
    """Raises InvalidRequestError where experiments side by side would have to share a GPU."""
    if spec.parallel == 1 or spec.executor != "local" or find_device() == "cpu":
        return
    if (count := len(visible_gpus())) < spec.parallel:
        raise InvalidRequestError(
            f"--parallel {spec.parallel}: each experiment needs a GPU of its own, and this process may use {count}"
        )


def training_devices(settings: Settings, spec: RunSpec | None, device: str) -> Devices:
    """What one training may use: the GPUs of this machine, shared among experiments side by side, a process each.

    On a CPU, and where jobs run on other machines, one process unless the settings say more. `spec`: None of what is no run.
    """
    count, memory = job_gpus(settings, spec, device)
    nodes = node_count(settings.slurm_options) if spec is not None and spec.executor == "slurm" else 1
    return Devices(settings.train_processes or max(1, count), settings.train_sharding, memory, nodes)


def job_gpus(settings: Settings, spec: RunSpec | None, device: str) -> tuple[int, int | None]:
    """How many of this machine's GPUs one job has, and the bytes of the smallest.

    On a CPU and where jobs run elsewhere none, and what the settings say of a node's GPU.
    """
    if device != "cuda" or (spec is not None and spec.executor != "local"):
        return 0, settings.gpu_memory
    count, memory = usable_gpus()
    return count // (spec.parallel if spec else 1), memory


def usable_gpus() -> tuple[int, int | None]:
    """How many GPUs this process may use, and the bytes of the smallest; None where they are not named by index."""
    there = gpu_memory()
    try:
        own = visible_gpus()
    except InvalidRequestError:
        names = [name for name in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if name.strip()]
        return min(len(names), len(there)), None
    return len(own), min((there[gpu] for gpu in own), default=None)


def check_training_devices(spec: RunSpec, settings: Settings) -> None:
    """Raises InvalidRequestError where trainings cannot be split as the settings say: too few GPUs, no DeepSpeed."""
    sharding, device = settings.train_sharding, find_device()
    free = training_devices(settings.model_copy(update={"train_processes": None}), spec, device)
    most = physical_cores() if device == "cpu" else free.processes
    asked = settings.train_processes or free.processes
    known = device == "cpu" or (spec.executor == "local" and free.memory is not None)
    if known and asked > most:
        what = (
            f"each needs a core, and there are {most}" if device == "cpu" else f"each needs a GPU, and there are {most}"
        )
        raise InvalidRequestError(f"TUNELOOP_TRAIN_PROCESSES={asked}: {what}")
    if sharding in ("auto", "ddp"):
        return
    if device == "cpu" or (known and asked == 1):
        raise InvalidRequestError(
            f"TUNELOOP_TRAIN_SHARDING={sharding}: splits a model over several GPUs, and a training here has "
            f"{'none' if device == 'cpu' else 'one'}; right is auto"
        )
    if sharding.startswith("zero") and lacks_deepspeed(settings):
        raise InvalidRequestError(
            f"TUNELOOP_TRAIN_SHARDING={sharding}: the engine has no deepspeed; right is fsdp, or install it: docs/gpu.md"
        )


def lacks_deepspeed(settings: Settings) -> bool:
    """Whether an engine is there, and without that package."""
    try:
        return not find_catalog(settings).has_package("deepspeed")
    except InvalidRequestError:
        return False


def free_share(run: RunFolder, number: int, others: Iterable[int], slots: int) -> list[int]:
    """The GPUs that an experiment gets beside others: its own as before, a job may hold them; [] while none are free."""
    gpus = visible_gpus()
    share = max(1, len(gpus) // slots)
    groups = [gpus[first : first + share] for first in range(0, share * slots, share)]
    taken = {gpu for other in others for gpu in assigned(run.experiment(other).root)}
    free = [group for group in groups if group and not taken & set(group)]
    own = assigned(run.experiment(number).root)
    return own if own in free else next(iter(free), [])


def assign_gpus(run: RunFolder, number: int, gpus: Sequence[int]) -> None:
    """Write down the share of an experiment."""
    if list(gpus) != assigned(run.experiment(number).root):
        write_json(run.experiment(number).root / FILE, list(gpus))


def release_gpus(run: RunFolder, number: int) -> None:
    """An experiment that is to be measured again may find its share with another."""
    (run.experiment(number).root / FILE).unlink(missing_ok=True)


def assigned(experiment: Path) -> list[int]:
    """The GPUs of an experiment; []: all of them."""
    file = experiment / FILE
    return read_model(file, list[int]) if file.is_file() else []


@contextlib.contextmanager
def lending_gpus(run: RunFolder, number: int, place: Path) -> Iterator[None]:
    """Jobs in the folder `place` see the GPUs of an experiment meanwhile: it waits for them."""
    own, before = assigned(run.experiment(number).root), assigned(place)
    if own:
        write_json(place / FILE, own)
    try:
        yield
    finally:
        if own and before:
            write_json(place / FILE, before)
        elif own:
            (place / FILE).unlink(missing_ok=True)


def gpu_environment(jobs: Path) -> dict[str, str]:
    """What of a job's environment says which GPUs are its own; `jobs`: the folder of the experiment's jobs."""
    own = assigned(jobs.parent)
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, own))} if own else {}
