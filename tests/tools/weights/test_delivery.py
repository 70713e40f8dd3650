"""The whole model is there or absent: also without room, on a disk that fills up, and after a kill; then it is handed over."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.prepared import prepared
from tests.small_disk import files_up_to
from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.files import digest_file, read_json
from tuneloop.core.job import Command
from tuneloop.core.layout import ExperimentFolder, RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder
from tuneloop.tools.housekeeping.disk import remove_path
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.weights.delivery import deliver_candidate, drop_merged, make_whole_model, start_merge

WHOLE = ["config.json", "manifest.json", "model.safetensors", "process_data.py", "tokenizer.json", "train.yaml"]


def put(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def trained(tmp_path: Path) -> tuple[RunTools, ExperimentFolder]:
    """A run whose first experiment left a whole model."""
    run = RunFolder(tmp_path / "runs" / "r")
    folder = run.experiment(1)
    base = tmp_path / "base"
    put(base / "tokenizer.json", "tokens")
    for name in (
        "model/model.safetensors",
        "model/config.json",
        "model/tokenizer.json",
        "process_data.py",
        "train.yaml",
    ):
        put(folder.root / name, name * 1000)
    found = BenchmarkFolder(Benchmark(name="b", description="d"), tmp_path, "f")
    prepared(run, RunSpec(benchmark="b", base_model="m"), found, base)
    return RunTools(run, Settings(FT_FILE_PATH=tmp_path)), folder


def test_a_whole_model_with_the_bases_tokenizer(trained: tuple[RunTools, ExperimentFolder]) -> None:
    run_tools, folder = trained
    best = make_whole_model(run_tools, folder)
    assert sorted(p.name for p in best.iterdir()) == WHOLE
    assert (best / "tokenizer.json").read_text() == "tokens"
    hashes = read_json(best / "manifest.json")["files"]
    assert hashes == {name: digest_file(best / name) for name in WHOLE if name != "manifest.json"}
    before = best.stat().st_ino
    assert make_whole_model(run_tools, folder).stat().st_ino == before, "found finished, not made again"


def test_a_merge_may_read_whatever_its_script_imports(
    trained: tuple[RunTools, ExperimentFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_tools, folder = trained
    given: list[Command] = []
    engine = SimpleNamespace(python=Path("python"), readable=(), env={}, identity="e")
    monkeypatch.setattr(RunTools, "engine", lambda *_: engine)
    monkeypatch.setattr(RunTools, "launch", lambda _, jobs, name, command, **more: given.append(command))
    put(folder.model / "adapter_model.safetensors")
    put(folder.config, "stage: grpo\n")
    start_merge(run_tools, folder)
    script = Path(given[0].argv[1])
    wanted = {name for name in re.findall(r"^from (lf_\w+)", script.read_text(), re.MULTILINE)}
    assert wanted and {str(script.with_name(f"{name}.py")) for name in wanted} <= set(given[0].read)
    assert "finetuning_type: lora" in Path(given[0].argv[3]).read_text()


@pytest.mark.parametrize("gone", ["model/model.safetensors", "model"])
def test_without_weights_nothing_is_delivered(trained: tuple[RunTools, ExperimentFolder], gone: str) -> None:
    run_tools, folder = trained
    remove_path(folder.root / gone)
    with pytest.raises(InfrastructureError, match=r"model holds no weights"):
        make_whole_model(run_tools, folder)
    assert not run_tools.run.candidate.exists()


def test_without_room_nothing_is_begun(trained: tuple[RunTools, ExperimentFolder]) -> None:
    run_tools, folder = trained
    with (folder.model / "model-00002-of-00002.safetensors").open("wb") as f:
        os.truncate(f.fileno(), 4 << 40)
    with pytest.raises(InfrastructureError, match=r"the whole model needs 4398\.\d GB and .* are free"):
        make_whole_model(run_tools, folder)
    assert not list(run_tools.run.final.glob("*candidate*"))


def test_a_disk_that_fills_up_leaves_nothing(trained: tuple[RunTools, ExperimentFolder]) -> None:
    run_tools, folder = trained
    put(folder.model / "model.safetensors", "x" * 100_000)
    with (
        files_up_to(50_000),
        pytest.raises(InfrastructureError, match="the whole model could not be written: File too large"),
    ):
        make_whole_model(run_tools, folder)
    assert not list(run_tools.run.final.glob("*candidate*"))
    assert not list(run_tools.run.final.glob(".*candidate*"))
    assert make_whole_model(run_tools, folder).is_dir()


def test_what_a_kill_left_is_replaced(trained: tuple[RunTools, ExperimentFolder]) -> None:
    run_tools, folder = trained
    put(run_tools.run.candidate / "stale.safetensors")
    put(run_tools.run.final / ".candidate.part" / "half.safetensors")
    assert sorted(p.name for p in make_whole_model(run_tools, folder).iterdir()) == WHOLE
    assert not list(run_tools.run.final.glob(".*candidate*"))


def test_the_merged_copy_goes_only_after_delivery(trained: tuple[RunTools, ExperimentFolder]) -> None:
    run_tools, folder = trained
    put(run_tools.run.final / "merged" / "model.safetensors", "merged")
    put(folder.model / "adapter_config.json")
    drop_merged(run_tools.run)
    assert (run_tools.run.final / "merged").is_dir()
    assert (make_whole_model(run_tools, folder) / "model.safetensors").read_text() == "merged"
    drop_merged(run_tools.run)
    assert not (run_tools.run.final / "merged").exists()


@pytest.mark.parametrize("stale", [False, True])
def test_delivered_candidate_becomes_best(trained: tuple[RunTools, ExperimentFolder], stale: bool) -> None:
    run_tools, folder = trained
    if stale:
        put(run_tools.run.best / "model.safetensors", "of a killed attempt")
    make_whole_model(run_tools, folder)
    for _ in range(2):
        deliver_candidate(run_tools.run, delivered=True)
        assert sorted(p.name for p in run_tools.run.best.iterdir()) == WHOLE
        assert not run_tools.run.candidate.exists()


def test_candidate_below_base_is_not_delivered(
    trained: tuple[RunTools, ExperimentFolder],
) -> None:
    run_tools, folder = trained
    make_whole_model(run_tools, folder)
    for _ in range(2):
        deliver_candidate(run_tools.run, delivered=False)
        assert not run_tools.run.candidate.exists() and not run_tools.run.best.exists()
    assert (folder.model / "model.safetensors").is_file()
