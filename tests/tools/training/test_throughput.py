"""The speed that was measured answers for the method and the device that it was measured with, and for no other."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.prepared import prepared, wordproblems
from tuneloop.core.experiment import Throughput
from tuneloop.core.files import write_atomic, write_json
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.training import throughput
from tuneloop.tools.training.throughput import forecast_by_throughput

FOUND = Throughput(method="lora", device="cpu", threads=2, rows=2, tokens=140, seconds=0.7, per_token=0.004, overhead=6)
PLAN = SimpleNamespace(batch=2, accumulation=1, steps=10, epochs=1.0, disk=1)


@pytest.mark.parametrize(
    ("config", "device", "answers"),
    [
        ("finetuning_type: lora\n", "cpu", True),
        ("finetuning_type: lora\n", "cuda", False),
        ("finetuning_type: lora\nquantization_bit: 4\n", "cpu", False),
        ("stage: grpo\n", "cpu", False),
    ],
)
def test_it_answers_for_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, device: str, answers: bool
) -> None:
    settings = Settings(FT_FILE_PATH=tmp_path / "home")
    run, spec = settings.home.run("r"), RunSpec(benchmark="wordproblems", base_model="tiny")
    prepared(run, spec, wordproblems(settings.home), tmp_path, device=device)
    folder = run.experiment(1)
    write_json(run.throughput, FOUND.model_dump(mode="json"))
    write_atomic(folder.config, config)
    write_json(folder.data / "report.json", {"source": "-", "read": 9, "rows": 9, "row_limit": 9})
    monkeypatch.setattr(throughput, "config_context", lambda *_: SimpleNamespace(method="lora"))
    monkeypatch.setattr(throughput, "training_plan", lambda *_: PLAN)
    monkeypatch.setattr(throughput, "estimate_memory", lambda *_, **__: SimpleNamespace(total=1))
    found = forecast_by_throughput(RunTools(run, settings), folder)
    assert (found is not None) is answers
