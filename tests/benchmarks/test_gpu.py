"""`make gpu` without a GPU: every row is skipped with its reason; shapes, peaks and both models are as they should be."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tuneloop.tools.config.model_shape import shape_of_weights
from tuneloop.tools.engines import Engine

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"
# The plain model beside that of transformers: same names, same logits; both learn, whole and by LoRA.
COMPARE = """\
import sys, torch
sys.path.insert(0, sys.argv[1])
from gpu_training import Training, config, measure, make_model, tensors
torch.manual_seed(1)
for kind in ("llama", "qwen2"):
    sizes = config(kind, 2, 64, 96, 4, 2, 100)
    theirs, ours = (make_model(torch, sizes, library=library) for library in (True, False))
    assert {n: tuple(p.shape) for n, p in theirs.named_parameters()} == {n: s for n, (_, s) in tensors(sizes).items()}
    ours.load_state_dict({n: w for n, w in theirs.state_dict().items() if n != "lm_head.weight"})
    rows = torch.randint(100, (2, 16))
    assert (theirs(input_ids=rows).logits - ours(rows)).abs().max() < 1e-5
    for library in (True, False):
        for full in (True, False):
            found = measure(torch, Training(sizes, full, 2, 16), "cpu", 1.0, library=library)
            assert found["last_loss"] < found["first_loss"], (kind, library, full, found)
"""


@pytest.fixture(scope="module")
def gpu() -> ModuleType:
    """The script."""
    spec = importlib.util.spec_from_file_location("gpu", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_shapes_are_those_of_the_published_models(gpu: ModuleType) -> None:
    counted = [shape_of_weights(sizes, gpu.tensors(sizes)).parameters for sizes in (gpu.SMOLLM2, gpu.QWEN2)]
    assert counted == [134_515_008, 1_543_714_304]


def test_estimates_fit_cards_that_such_trainings_fit(gpu: ModuleType) -> None:
    lora, full = (gpu.expected_bytes(gpu.Training(gpu.QWEN2, full, 4, 1024)) / (1 << 30) for full in (False, True))
    assert 5 < lora < 24
    assert 24 < full < 32
    assert gpu.compared(110, 100)["estimate_within_15_percent"]
    assert not gpu.compared(80, 100)["estimate_within_15_percent"]


def test_operations_of_a_step(gpu: ModuleType) -> None:
    matrices = 134_515_008 - 61 * 576
    assert gpu.step_operations(gpu.SMOLLM2, 10, full=True) == 60 * matrices
    assert gpu.step_operations(gpu.SMOLLM2, 10, full=False) == 40 * matrices


@pytest.mark.parametrize(
    ("card", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA L4", 121e12),
        ("NVIDIA A100-SXM4-40GB", 312e12),
        ("Quadro", None),
    ],
)
def test_peaks(gpu: ModuleType, card: str, peak: float | None) -> None:
    assert gpu.peak_of(card) == peak


def test_batch_is_halved_until_it_fits(gpu: ModuleType) -> None:
    def attempt(batch: int) -> None:
        if batch > 20:
            raise MemoryError(f"CUDA out of memory with {batch}")

    assert gpu.largest_batch(attempt, 64, MemoryError) == (16, "MemoryError: CUDA out of memory with 64")
    assert gpu.largest_batch(lambda _: attempt(99), 4, MemoryError)[0] == 0


def test_out_of_memory_is_recognised(gpu: ModuleType) -> None:
    said = "OutOfMemoryError: CUDA out of memory. Tried to allocate 384.00 GiB. GPU 0 has a total capacity of 79.11 GiB"
    assert "halve the batch" in gpu.recognised(said)
    with pytest.raises(ValueError, match="not recognised"):
        gpu.recognised("ZeroDivisionError: division by zero")


def test_second_job_on_one_card_waits(gpu: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "find_torch", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(gpu.SkippedError, match="nvidia-smi"):
        gpu.two_jobs()
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf '0, 81559\\n'\n")
    program.chmod(0o755)
    found = gpu.two_jobs()
    assert found["second_waits"]
    assert "wants 1 GPUs" in found["refused"]


def test_time_that_is_over_skips_rows(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "find_torch", lambda: None)
    (row,) = gpu.all_rows(["CUDA"], 5.0)
    assert row.skipped == "5 s are left of 5 s"


def test_without_a_gpu_every_row_is_skipped_with_its_reason(gpu: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "made" / "gpu.json"
    argv = [sys.executable, str(SCRIPT), "--out", str(out)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())
    assert [row["name"] for row in rows] == list(gpu.ROWS)
    for row in rows:
        assert row["measured"] is None
        assert row["skipped"].startswith(("torch does not import", "torch ")), row
    assert f"{rows[0]['name']}: skipped: {rows[0]['skipped']}" in done.stdout


def test_docs_name_every_row(gpu: ModuleType) -> None:
    page = (SCRIPT.parents[1] / "docs" / "gpu.md").read_text()
    assert [name for name in gpu.ROWS if name.split(", ")[-1] not in page] == []


def test_both_models_are_the_same_and_learn(llamafactory: Engine) -> None:
    argv = [str(llamafactory.python), "-c", COMPARE, str(SCRIPT.parent)]
    done = subprocess.run(
        argv, env={**llamafactory.env, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
