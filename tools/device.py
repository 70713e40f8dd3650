"""What the machine computes on, found without importing torch."""

from __future__ import annotations

import os
from pathlib import Path


def find_device() -> str:
    """`cuda` when an NVIDIA device is there and not hidden by CUDA_VISIBLE_DEVICES, else `cpu`."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return "cuda" if not hidden and Path("/dev/nvidiactl").exists() else "cpu"
