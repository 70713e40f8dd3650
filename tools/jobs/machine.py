"""What a job of a run may use: the user's numbers, else what this machine can spare."""

from __future__ import annotations

import os
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
    """`cuda` when an NVIDIA device is there and not hidden by CUDA_VISIBLE_DEVICES, else `cpu`."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return "cuda" if not hidden and Path("/dev/nvidiactl").exists() else "cpu"


NVIDIA_DRIVER = Path("/proc/driver/nvidia")


def gpu_models(driver: Path = NVIDIA_DRIVER) -> list[str]:
    """Model names of the NVIDIA devices, sorted, as the kernel's driver reports them; [] where it reports none."""
    return sorted(_model(path) for path in driver.glob("gpus/*/information"))


def _model(information: Path) -> str:
    lines = information.read_text(errors="replace").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("Model:")), "NVIDIA device")


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
