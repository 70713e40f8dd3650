"""GPUs of experiments side by side: each its own, the same as long as it is open."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.tools.config.sharding import Devices
from tuneloop.tools.jobs import gpu_share
from tuneloop.tools.jobs.gpu_share import (
    assign_gpus,
    assigned,
    check_gpus,
    check_training_devices,
    free_share,
    gpu_environment,
    lending_gpus,
    release_gpus,
    training_devices,
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setattr(gpu_share, "gpu_memory", lambda: dict.fromkeys(range(4), 80 << 30))
    monkeypatch.setattr(gpu_share, "find_device", lambda: "cuda")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return RunFolder(tmp_path)


def give(run: RunFolder, number: int, others: list[int], slots: int = 2) -> list[int]:
    found = free_share(run, number, others, slots)
    assign_gpus(run, number, found)
    return found


def test_each_open_experiment_has_its_share(run: RunFolder) -> None:
    assert [give(run, 1, []), give(run, 2, [1])] == [[0, 1], [2, 3]]
    assert give(run, 3, [2]) == [0, 1], "1 has left its slot"
    assert give(run, 2, [3]) == [2, 3] == assigned(run.experiment(2).root)
    assert gpu_environment(run.experiment(3).jobs) == {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert gpu_environment(run.experiment(9).jobs) == {}


def test_no_share_is_free_while_all_are_held(run: RunFolder) -> None:
    give(run, 1, [])
    give(run, 2, [1])
    assert free_share(run, 3, [1, 2], 2) == []
    assert free_share(run, 1, [2, 3], 2) == [0, 1]
    give(run, 3, [2])
    assert free_share(run, 1, [2, 3], 2) == [], "its share is with 3 meanwhile"
    release_gpus(run, 1)
    assert free_share(run, 3, [1, 2], 2) == [0, 1]


def test_what_is_measured_again_sees_the_gpus_of_the_experiment_that_waits_for_it(run: RunFolder) -> None:
    give(run, 1, [])
    give(run, 2, [1])
    for place, own in ((run.baseline, []), (run.experiment(1).root, [0, 1])):
        with lending_gpus(run, 2, place):
            assert gpu_environment(place / "jobs") == {"CUDA_VISIBLE_DEVICES": "2,3"}
        assert assigned(place) == own
    with lending_gpus(run, 3, run.baseline):
        assert assigned(run.baseline) == [], "one that has no share lends none"


def test_shares_are_of_the_gpus_that_the_process_may_use(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1,7")
    assert [give(run, 1, []), give(run, 2, [1])] == [[1], [3]]
    spec = RunSpec(benchmark="b", base_model="m", parallel=2)
    check_gpus(spec)
    with pytest.raises(InvalidRequestError, match="this process may use 2"):
        check_gpus(spec.model_copy(update={"parallel": 3}))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-8932f937")
    with pytest.raises(InvalidRequestError, match="by index"):
        check_gpus(spec)


def test_more_experiments_than_gpus_are_refused(run: RunFolder) -> None:
    spec = RunSpec(benchmark="b", base_model="m", parallel=5)
    with pytest.raises(InvalidRequestError, match="needs a GPU of its own, and this process may use 4"):
        check_gpus(spec)
    check_gpus(spec.model_copy(update={"executor": "slurm"}))
    check_gpus(spec.model_copy(update={"parallel": 4}))


def test_a_training_has_a_process_for_each_gpu(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, settings = RunSpec(benchmark="b", base_model="m"), Settings()
    assert training_devices(settings, spec, "cuda") == Devices(4, "auto", 80 << 30)
    assert training_devices(settings, spec.model_copy(update={"parallel": 2}), "cuda").processes == 2
    assert training_devices(settings, spec, "cpu") == Devices(1)
    assert training_devices(settings, spec.model_copy(update={"executor": "slurm"}), "cuda") == Devices(1)
    nodes, told = spec.model_copy(update={"executor": "slurm"}), Settings(TUNELOOP_GPU_MEMORY="100")
    assert training_devices(told, nodes, "cuda") == Devices(1, "auto", 100)
    several = Settings.model_validate({"TUNELOOP_SLURM_OPTIONS": "--nodes=3"})
    assert training_devices(several, spec.model_copy(update={"executor": "slurm"}), "cuda") == Devices(1, nodes=3)
    assert training_devices(several, spec, "cuda").nodes == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-8932f937,GPU-1c2f,")
    assert training_devices(settings, spec, "cuda") == Devices(2, "auto", None)


def test_only_gpus_that_are_there_and_visible_count(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, settings = RunSpec(benchmark="b", base_model="m"), Settings()
    monkeypatch.setattr(gpu_share, "gpu_memory", lambda: {0: 80 << 30, 1: 8 << 30})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2,3,")
    assert training_devices(settings, spec, "cuda") == Devices(1, "auto", 80 << 30)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert training_devices(settings, spec, "cuda") == Devices(1, "auto", None)


@pytest.mark.parametrize(
    ("device", "asked", "text"),
    [
        ("cuda", {"TUNELOOP_TRAIN_PROCESSES": "5"}, "each needs a GPU, and there are 4"),
        ("cpu", {"TUNELOOP_TRAIN_PROCESSES": "99999"}, "each needs a core"),
        ("cpu", {"TUNELOOP_TRAIN_SHARDING": "zero2"}, "a training here has none; right is auto"),
        ("cuda", {"TUNELOOP_TRAIN_SHARDING": "fsdp", "TUNELOOP_TRAIN_PROCESSES": "1"}, "a training here has one"),
        ("cuda", {"TUNELOOP_TRAIN_SHARDING": "zero3"}, "the engine has no deepspeed; right is fsdp"),
    ],
)
def test_what_cannot_be_split_is_refused(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, device: str, asked: dict[str, str], text: str
) -> None:
    spec = RunSpec(benchmark="b", base_model="m")
    monkeypatch.setattr(gpu_share, "find_device", lambda: device)
    monkeypatch.setattr(gpu_share, "lacks_deepspeed", lambda _: True)
    check_training_devices(spec, Settings())
    # On nodes nobody knows how many GPUs a job will have.
    there = {"TUNELOOP_GPU_MEMORY": "80000000000", "TUNELOOP_TRAIN_SHARDING": "fsdp", "TUNELOOP_DEVICE": "cuda"}
    if device == "cuda":
        check_training_devices(spec.model_copy(update={"executor": "slurm"}), Settings.model_validate(there))
    with pytest.raises(InvalidRequestError, match=text):
        check_training_devices(spec, Settings.model_validate(asked))
