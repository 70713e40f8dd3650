"""Threads of jobs on a CPU: all cores that the process may use for a model that is not tiny, and they sleep where they wait."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuneloop.tools.jobs import machine
from tuneloop.tools.jobs.machine import (
    ENGINES,
    THREADS,
    TINY_BYTES,
    cpu_environment,
    cpu_threads,
    is_tiny,
    physical_cores,
    processor_name,
)


@pytest.fixture
def topology(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four cores of two threads each, of which a process may use the first six threads."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    for number in range(8):
        file = tmp_path / f"cpu{number}" / "topology" / "thread_siblings_list"
        file.parent.mkdir(parents=True)
        file.write_text(f"{number // 2 * 2}-{number // 2 * 2 + 1}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", 3), ("200000 100000", 2), ("50000 100000", 1), ("900000 100000", 3)]
)
def test_two_threads_of_a_core_count_once_and_a_quota_counts(topology: Path, quota: str, cores: int) -> None:
    (topology / "cpu.max").write_text(quota + "\n")
    assert physical_cores(topology, topology / "cpu.max") == cores
    assert physical_cores(topology, topology / "none") == 3
    assert physical_cores(topology / "none", topology / "none") == 6


def test_only_models_that_are_not_tiny_get_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "physical_cores", lambda: 4)
    file = tmp_path / "model.safetensors"
    for size, threads in ((TINY_BYTES - 1, 1), (TINY_BYTES, 4)):
        with file.open("wb") as f:
            f.truncate(size)
        assert cpu_threads(tmp_path) == threads
        assert is_tiny(tmp_path) == (threads == 1)
    assert [cpu_threads(tmp_path, jobs) for jobs in (2, 3, 9)] == [2, 1, 1]


def test_several_threads_sleep_where_they_wait() -> None:
    assert cpu_environment(1) == {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    several = cpu_environment(2)
    assert (several["OMP_WAIT_POLICY"], several["OMP_NUM_THREADS"], several[THREADS]) == ("PASSIVE", "1", "2")


@pytest.mark.parametrize("script", ["llamafactory/train.py", "opencompass/measure.py", "trl/grpo.py"])
def test_every_script_that_computes_takes_its_threads(script: str) -> None:
    assert (
        f'torch.set_num_threads(int(os.environ.get("{THREADS}", torch.get_num_threads())))'
        in (ENGINES / script).read_text()
    )


def test_a_processor_is_told_apart_from_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "physical_cores", lambda: 2)
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: AMD EPYC 9R14\nprocessor\t: 1\nmodel name\t: AMD EPYC 9R14\n")
    assert processor_name("cpu", file) == "AMD EPYC 9R14, 2 cores"
    assert processor_name("cpu", tmp_path / "none").endswith(", 2 cores")
    monkeypatch.setattr(machine, "gpu_models", lambda: ["NVIDIA A", "NVIDIA B"])
    assert processor_name("cuda") == "NVIDIA A, NVIDIA B"
