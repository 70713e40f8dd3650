"""The NVIDIA GPUs of this machine with their memory, as `nvidia-smi` reports them."""

from __future__ import annotations

import shutil
import subprocess

from tuneloop.core.errors import InfrastructureError

QUERY = ("--query-gpu=index,memory.total", "--format=csv,noheader,nounits")
SECONDS = 30.0


def gpu_memory() -> dict[int, int]:
    """Bytes of memory by GPU; {} where there is no `nvidia-smi`. Raises InfrastructureError when it fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    try:
        done = subprocess.run([program, *QUERY], capture_output=True, text=True, timeout=SECONDS, check=True)
        rows = [line.split(",") for line in done.stdout.splitlines() if line.strip()]
        return {int(index): int(mib) << 20 for index, mib in rows}
    except (OSError, subprocess.SubprocessError, ValueError) as e:
        raise InfrastructureError(
            f"nvidia-smi does not answer ({type(e).__name__}): see whether it works by itself"
        ) from e
