"""The whole model is there or absent: also without room, on a disk that fills up, and after a kill; then it is handed over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.prepared import prepared
from tests.small_disk import files_up_to
from tuneloop.core.benchmark import Benchmark
from tuneloop.core.errors import WorldError
from tuneloop.core.files import digest_file, read_json
from tuneloop.core.layout import ExperimentFolder, RunFolder
from tuneloop.core.run import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmarks.folder import BenchmarkFolder
from tuneloop.tools.delivery import drop_merged, hand_over, make_whole_model
from tuneloop.tools.workbench import Workbench

WHOLE = ["config.json", "manifest.json", "model.safetensors", "process_data.py", "tokenizer.json", "train.yaml"]


def put(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def trained(tmp_path: Path) -> tuple[Workbench, ExperimentFolder]:
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
    return Workbench(run, Settings(FT_FILE_PATH=tmp_path)), folder


def test_a_whole_model_with_the_bases_tokenizer(trained: tuple[Workbench, ExperimentFolder]) -> None:
    bench, folder = trained
    best = make_whole_model(bench, folder)
    assert sorted(p.name for p in best.iterdir()) == WHOLE
    assert (best / "tokenizer.json").read_text() == "tokens"
    hashes = read_json(best / "manifest.json")["files"]
    assert hashes == {name: digest_file(best / name) for name in WHOLE if name != "manifest.json"}
    before = best.stat().st_ino
    assert make_whole_model(bench, folder).stat().st_ino == before, "found finished, not made again"


def test_without_room_nothing_is_begun(trained: tuple[Workbench, ExperimentFolder]) -> None:
    bench, folder = trained
    with (folder.model / "model-00002-of-00002.safetensors").open("wb") as f:
        os.truncate(f.fileno(), 4 << 40)
    with pytest.raises(WorldError, match=r"the whole model needs 4398\.\d GB and .* are free"):
        make_whole_model(bench, folder)
    assert not list(bench.run.final.glob("*candidate*"))


def test_a_disk_that_fills_up_leaves_nothing(trained: tuple[Workbench, ExperimentFolder]) -> None:
    bench, folder = trained
    put(folder.model / "model.safetensors", "x" * 100_000)
    with files_up_to(50_000), pytest.raises(WorldError, match="the whole model could not be written: File too large"):
        make_whole_model(bench, folder)
    assert not list(bench.run.final.glob("*candidate*"))
    assert not list(bench.run.final.glob(".*candidate*"))
    assert make_whole_model(bench, folder).is_dir()


def test_what_a_kill_left_is_replaced(trained: tuple[Workbench, ExperimentFolder]) -> None:
    bench, folder = trained
    put(bench.run.candidate / "stale.safetensors")
    put(bench.run.final / ".candidate.part" / "half.safetensors")
    assert sorted(p.name for p in make_whole_model(bench, folder).iterdir()) == WHOLE
    assert not list(bench.run.final.glob(".*candidate*"))


def test_the_merged_copy_goes_only_after_delivery(trained: tuple[Workbench, ExperimentFolder]) -> None:
    bench, folder = trained
    put(bench.run.final / "merged" / "model.safetensors", "merged")
    put(folder.model / "adapter_config.json")
    drop_merged(bench.run)
    assert (bench.run.final / "merged").is_dir()
    assert (make_whole_model(bench, folder) / "model.safetensors").read_text() == "merged"
    drop_merged(bench.run)
    assert not (bench.run.final / "merged").exists()


@pytest.mark.parametrize("stale", [False, True])
def test_delivered_candidate_becomes_best(trained: tuple[Workbench, ExperimentFolder], stale: bool) -> None:
    bench, folder = trained
    if stale:
        put(bench.run.best / "model.safetensors", "of a killed attempt")
    make_whole_model(bench, folder)
    for _ in range(2):
        hand_over(bench.run, delivered=True)
        assert sorted(p.name for p in bench.run.best.iterdir()) == WHOLE
        assert not bench.run.candidate.exists()


def test_candidate_below_the_base_model_is_removed_and_stays_in_its_experiment(
    trained: tuple[Workbench, ExperimentFolder],
) -> None:
    bench, folder = trained
    make_whole_model(bench, folder)
    for _ in range(2):
        hand_over(bench.run, delivered=False)
        assert not bench.run.candidate.exists() and not bench.run.best.exists()
    assert (folder.model / "model.safetensors").is_file()
