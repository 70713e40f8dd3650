"""GPUs are listed as `nvidia-smi` reports them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.errors import InfrastructureError
from tuneloop.sandboxes.local import gpu_memory


def program(folder: Path, text: str) -> None:
    file = folder / "nvidia-smi"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def test_memory_by_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_memory() == {}
    program(tmp_path, "printf '0, 81559\\n1, 24564\\n'")
    assert gpu_memory() == {0: 81559 << 20, 1: 24564 << 20}


@pytest.mark.parametrize("text", ["exit 9", "echo no devices were found"])
def test_driver_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path, text)
    with pytest.raises(InfrastructureError, match="nvidia-smi does not answer"):
        gpu_memory()
