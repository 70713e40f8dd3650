"""`best/` is whole or absent: also without room, on a disk that fills up, and after a kill in the middle."""

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
from tuneloop.tools.delivery import deliver, drop_merged
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
    best = deliver(bench, folder)
    assert sorted(p.name for p in best.iterdir()) == WHOLE
    assert (best / "tokenizer.json").read_text() == "tokens"
    hashes = read_json(best / "manifest.json")["files"]
    assert hashes == {name: digest_file(best / name) for name in WHOLE if name != "manifest.json"}
    before = best.stat().st_ino
    assert deliver(bench, folder).stat().st_ino == before, "found finished, not made again"


def test_without_room_nothing_is_begun(trained: tuple[Workbench, ExperimentFolder]) -> None:
    bench, folder = trained
    with (folder.model / "model-00002-of-00002.safetensors").open("wb") as f:
        os.truncate(f.fileno(), 4 << 40)
    with pytest.raises(WorldError, match=r"best/ needs 4398\.\d GB and .* are free"):
        deliver(bench, folder)
    assert not list(bench.run.root.glob("*best*"))


def test_a_disk_that_fills_up_leaves_nothing(trained: tuple[Workbench, ExperimentFolder]) -> None:
    bench, folder = trained
    put(folder.model / "model.safetensors", "x" * 100_000)
    with files_up_to(50_000), pytest.raises(WorldError, match="best/ could not be written: File too large"):
        deliver(bench, folder)
    assert not list(bench.run.root.glob("*best*"))
    assert not list(bench.run.root.glob(".*best*"))
    assert deliver(bench, folder).is_dir()


def test_what_a_kill_left_is_replaced(trained: tuple[Workbench, ExperimentFolder]) -> None:
    bench, folder = trained
    put(bench.run.best / "stale.safetensors")
    put(bench.run.root / ".best.part" / "half.safetensors")
    assert sorted(p.name for p in deliver(bench, folder).iterdir()) == WHOLE
    assert not list(bench.run.root.glob(".*best*"))


def test_the_merged_copy_goes_only_after_delivery(trained: tuple[Workbench, ExperimentFolder]) -> None:
    bench, folder = trained
    put(bench.run.final / "merged" / "model.safetensors", "merged")
    put(folder.model / "adapter_config.json")
    drop_merged(bench.run)
    assert (bench.run.final / "merged").is_dir()
    assert (deliver(bench, folder) / "model.safetensors").read_text() == "merged"
    drop_merged(bench.run)
    assert not (bench.run.final / "merged").exists()
