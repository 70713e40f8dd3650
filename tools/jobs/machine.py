"""What a job of a run may use: the user's numbers, else what this machine can spare."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

import tuneloop
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.job import Limits
from tuneloop.core.settings import Settings

# Where the files lie that run inside engines.

ENGINES = (Path(tuneloop.__file__).parent / "engines").resolve()


# What the machine computes on, found without importing torch.


def find_device() -> str:
    """What TUNELOOP_DEVICE says; else `cuda` when an NVIDIA device is there and not hidden by CUDA_VISIBLE_DEVICES, else `cpu`."""
    if named := os.environ.get("TUNELOOP_DEVICE"):
        return named
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return "cuda" if not hidden and Path("/dev/nvidiactl").exists() else "cpu"


NVIDIA_DRIVER = Path("/proc/driver/nvidia")


def gpu_models(driver: Path = NVIDIA_DRIVER) -> list[str]:
    """Model names of the NVIDIA devices, sorted, as the kernel's driver reports them; [] where it reports none."""
    return sorted(_model(path) for path in driver.glob("gpus/*/information"))


def _model(information: Path) -> str:
    lines = information.read_text(errors="replace").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("Model:")), "NVIDIA device")


TOPOLOGY = Path("/sys/devices/system/cpu")
QUOTA = Path("/sys/fs/cgroup/cpu.max")
THREADS = "TUNELOOP_JOB_THREADS"  # as engines' scripts call it
TINY_BYTES = 64 << 20  # of weights: threads of a smaller model wait for one another longer than they compute


def physical_cores(topology: Path = TOPOLOGY, quota: Path = QUOTA) -> int:
    """Cores that this process may use, as the kernel tells them: two threads of one core count once; at least one."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    files = [topology / f"cpu{number}" / "topology" / "thread_siblings_list" for number in allowed]
    cores = len({file.read_text().strip() if file.is_file() else str(file) for file in files})
    share, _, period = quota.read_text().partition(" ") if quota.is_file() else ("max", "", "")
    return max(1, cores if share == "max" else min(cores, int(share) // int(period)))


def is_tiny(model: Path) -> bool:
    """Whether the weights in `model` are so few that a training of them takes seconds."""
    return sum(file.stat().st_size for file in model.glob("*.safetensors")) < TINY_BYTES


def cpu_threads(model: Path, jobs: int = 1) -> int:
    """Threads of a job that computes on a CPU with the weights in `model`, one of `jobs` at a time: one for a tiny model."""
    return 1 if is_tiny(model) else max(1, physical_cores() // jobs)


CPUINFO = Path("/proc/cpuinfo")


def processor_name(device: str, cpuinfo: Path = CPUINFO) -> str:
    """What computes: the models of the GPUs, or that of the CPU with the number of its cores."""
    if device != "cpu":
        return ", ".join(gpu_models()) or device
    lines = cpuinfo.read_text(errors="replace").splitlines() if cpuinfo.is_file() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"{model}, {physical_cores()} cores"


def cpu_environment(threads: int) -> dict[str, str]:
    """Variables of a job on the CPU; it takes its threads itself (`THREADS`), for a warm worker must import with one.

    Several threads sleep while they wait: spinning ones triple a step on a busy machine.
    """
    several = {THREADS: str(threads), "OMP_WAIT_POLICY": "PASSIVE"} if threads > 1 else {}
    return {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **several}


SPARE_DISK = 1 << 30
PROCESSES = 512


def job_limits(settings: Settings, seconds: float | None, place: Path) -> Limits:
    """Limits for one job writing below `place`. Raises InfrastructureError when less than 1 GiB of disk is free there."""
    free = shutil.disk_usage(place).free
    if free < SPARE_DISK:
        raise InfrastructureError(
            f"{place}: only {free >> 20} MiB of disk are free; free some and run `tuneloop resume`"
        )
    return Limits(
        seconds=seconds,
        memory=memory_limit(settings),
        processes=PROCESSES,
        disk=free - SPARE_DISK // 2,
    )


def memory_limit(settings: Settings) -> int:
    """Bytes that a job may use."""
    return settings.job_memory or int(0.9 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
