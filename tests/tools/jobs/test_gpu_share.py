"""GPUs of experiments side by side: each its own, the same as long as it is open."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.tools.jobs import gpu_share
from tuneloop.tools.jobs.gpu_share import assign_gpus, assigned, check_gpus, gpu_environment


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setattr(gpu_share, "gpu_memory", lambda: dict.fromkeys(range(4), 80 << 30))
    monkeypatch.setattr(gpu_share, "find_device", lambda: "cuda")
    return RunFolder(tmp_path)


def test_each_open_experiment_has_its_share(run: RunFolder) -> None:
    assign_gpus(run, 1, [], 2)
    assign_gpus(run, 2, [1], 2)
    assert [assigned(run.experiment(n).root) for n in (1, 2)] == [[0, 1], [2, 3]]
    assign_gpus(run, 3, [2], 2)  # 1 has left its slot
    assign_gpus(run, 2, [3], 2)
    assert [assigned(run.experiment(n).root) for n in (2, 3)] == [[2, 3], [0, 1]]
    assert gpu_environment(run.experiment(3).jobs) == {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert gpu_environment(run.experiment(9).jobs) == {}


def test_more_experiments_than_gpus_are_refused(run: RunFolder) -> None:
    spec = RunSpec(benchmark="b", base_model="m", parallel=5)
    with pytest.raises(InvalidRequestError, match="needs a GPU of its own, and this machine has 4"):
        check_gpus(spec)
    check_gpus(spec.model_copy(update={"executor": "slurm"}))
    check_gpus(spec.model_copy(update={"parallel": 4}))
