"""Large files are read once; any change of a file is seen."""

import os
import time
from pathlib import Path

import pytest

from tuneloop.core.files import digest_file
from tuneloop.tools.weights import fingerprints
from tuneloop.tools.weights.fingerprints import LARGE, model_fingerprint


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"w" * LARGE)
    return folder


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files whose bytes were read; waiting for files to settle is left out."""
    names: list[str] = []
    real = digest_file

    def noted(path: Path) -> str:
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(fingerprints, "digest_file", noted)
    monkeypatch.setattr(fingerprints, "SETTLED", -1.0)
    return names


def test_a_large_file_is_read_once_and_a_small_one_each_time(model: Path, tmp_path: Path, read: list[str]) -> None:
    memory = tmp_path / "memory"
    first = model_fingerprint(model, memory)
    assert model_fingerprint(model, memory) == first == model_fingerprint(model)
    assert read == ["config.json", "model.safetensors", "config.json", "config.json", "model.safetensors"]


def test_every_change_is_seen(model: Path, tmp_path: Path, read: list[str]) -> None:
    memory, weights = tmp_path / "memory", model / "model.safetensors"
    first, before = model_fingerprint(model, memory), weights.stat()
    with weights.open("r+b") as f:
        f.write(b"x")
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (weights.stat().st_mtime_ns, weights.stat().st_size) == (before.st_mtime_ns, before.st_size)
    second = model_fingerprint(model, memory)
    assert second == model_fingerprint(model) != first
    other = tmp_path / "other"
    other.write_bytes(b"y" * LARGE)
    other.replace(weights)
    assert model_fingerprint(model, memory) == model_fingerprint(model) not in (first, second)


def test_a_file_still_warm_is_not_remembered(model: Path, tmp_path: Path) -> None:
    memory, weights = tmp_path / "memory", model / "model.safetensors"
    os.utime(weights, (time.time(), time.time()))
    model_fingerprint(model, memory)
    assert not memory.exists()


@pytest.mark.parametrize("content", ["", "[]", '{"mark": 1}', '{"sha256": "x"}'])
def test_a_broken_note_means_reading_again(content: str, model: Path, tmp_path: Path, read: list[str]) -> None:
    memory = tmp_path / "memory"
    first = model_fingerprint(model, memory)
    (note,) = memory.iterdir()
    note.write_text(content)
    assert model_fingerprint(model, memory) == first
    assert read.count("model.safetensors") == 2


def test_a_memory_that_cannot_be_written_is_none(model: Path, tmp_path: Path, read: list[str]) -> None:
    (tmp_path / "memory").write_text("")
    assert model_fingerprint(model, tmp_path / "memory") == model_fingerprint(model)
