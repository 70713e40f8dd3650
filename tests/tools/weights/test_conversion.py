"""Pickled weights on the real engine: the same tensors come out, and a pickle with code in it changes nothing outside."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tools.evaluation.test_run_evaluation import over
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_json, write_json
from tuneloop.core.run_spec import RunSandbox, RunSpec
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.bubblewrap import probe_bubblewrap
from tuneloop.sandboxes.jobs import read_command
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.tools.config.model_card import read_model_card
from tuneloop.tools.engines import Engine
from tuneloop.tools.hub.models import ModelFolder
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.runs.manifest import write_manifest
from tuneloop.tools.weights import conversion
from tuneloop.tools.weights.conversion import (
    conversion_folder,
    conversion_status,
    is_converted,
    start_conversion,
    take_converted,
)

SHARDS = ("pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin")
# Two shards of the tiny model: one as PyTorch writes them today, one as it did before 1.6; with a tensor that is another's
# memory and one that is a part of its own.
PICKLE = """\
import sys, torch
from safetensors.torch import load_file
source, one, two = sys.argv[1:]
tensors = load_file(source)
names = sorted(tensors)
half = {name: tensors[name] for name in names[::2]}
half["head"] = half[names[0]]
half["part"] = tensors[names[0]].t()[1:]
torch.save(half, one)
torch.save({name: tensors[name] for name in names[1::2]}, two, _use_new_zipfile_serialization=False)
"""
COMPARE = """\
import sys, torch
from safetensors.torch import load_file
old, *new = map(load_file, sys.argv[1:])
new = {name: tensor for part in new for name, tensor in part.items()}
first = min(old)
old |= {"head": old[first], "part": old[first].t()[1:]}
assert old.keys() == new.keys() and all(old[n].equal(new[n]) and old[n].dtype == new[n].dtype for n in old)
"""


def engine_runs(engine: Engine, code: str, *arguments: Path) -> None:
    argv = [str(engine.python), "-c", code, *map(str, arguments)]
    done = subprocess.run(argv, env=engine.env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


def bench(home: Path, kind: RunSandbox = "bubblewrap") -> RunTools:
    """A run that is not prepared yet."""
    if kind == "bubblewrap" and (problem := probe_bubblewrap()):
        pytest.skip(problem)
    settings = Settings(FT_FILE_PATH=home)
    run = settings.home.run(kind)
    write_manifest(run, RunSpec(benchmark="x", base_model="m", sandbox=kind))
    return RunTools(run, settings)


def model(folder: Path, tiny: Path, **files: bytes) -> ModelFolder:
    """The tiny model's folder without its weights."""
    folder.mkdir()
    for file in tiny.iterdir():
        if file.suffix != ".safetensors" and file.name != "manifest.json":
            shutil.copyfile(file, folder / file.name)
    for name, content in files.items():
        (folder / f"{name}.bin").write_bytes(content)
    return ModelFolder("own", folder)


def converted(b: RunTools, engine: Engine, given: ModelFolder) -> Path:
    start_conversion(b, engine, given)
    over(lambda: conversion_status(b))
    return take_converted(b, given)


def test_the_copy_has_the_same_tensors(llamafactory: Engine, tiny: Path, tmp_path: Path) -> None:
    b, given = bench(tmp_path / "home"), model(tmp_path / "own", tiny)
    weights = tiny / "model.safetensors"
    engine_runs(llamafactory, PICKLE, weights, *(given.root / name for name in SHARDS))
    (given.root / "model.py").write_text("raise SystemExit")
    copy = converted(b, llamafactory, given)
    parts = sorted(copy.glob("*.safetensors"))
    assert [p.name for p in parts] == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    engine_runs(llamafactory, COMPARE, weights, *parts)
    known = {p.name for p in tiny.iterdir()} - {"model.safetensors", "README.md"}
    assert {p.name for p in copy.iterdir()} == {*known, *(p.name for p in parts), "model.safetensors.index.json"}
    assert read_model_card(copy).tensors.keys() == read_model_card(tiny).tensors.keys() | {"head", "part"}
    command = read_command(b.run.baseline / "jobs" / "convert.1")
    assert (command.generated, command.network, command.worker) == (True, False, "")
    assert command.write == (str(b.run.baseline / "work" / "convert"),)
    assert is_converted(conversion_folder(b.settings, given)), "another run takes it as it is"
    assert not list((b.run.baseline / "work").iterdir())
    write_json(given.root / "pytorch_model.bin.index.json", {"weight_map": {"head": SHARDS[0]}})
    with pytest.raises(InvalidRequestError, match=r"index\.json names others"):
        converted(b, llamafactory, given)


def hostile(canary: Path) -> bytes:
    """A pickle that writes a file when it is read."""
    return f"cos\nsystem\n(S'echo taken > {canary}'\ntR.".encode()


def test_a_pickle_with_code_in_it_is_refused_in_one_line(llamafactory: Engine, tiny: Path, tmp_path: Path) -> None:
    b = bench(tmp_path / "home")
    given = model(tmp_path / "own", tiny, pytorch_model=hostile(tmp_path / "canary"))
    with pytest.raises(InvalidRequestError, match=r"can hold code.*right is weights as") as e:
        converted(b, llamafactory, given)
    assert "\n" not in str(e.value)
    assert not is_converted(conversion_folder(b.settings, given))
    assert not (tmp_path / "canary").exists()


def test_without_the_guard_of_torch_the_sandbox_holds_it(
    llamafactory: Engine, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary"
    given = model(tmp_path / "own", tiny, pytorch_model=hostile(canary))
    script = tmp_path / "to_safetensors.py"
    text = conversion.SCRIPT.read_text()
    script.write_text(text.replace("weights_only=True", "weights_only=False"))
    assert script.read_text() != text
    monkeypatch.setattr(conversion, "SCRIPT", script)
    argv = [str(llamafactory.python), str(script), str(given.root), str(tmp_path)]
    subprocess.run(argv, env=llamafactory.env, capture_output=True, check=False, timeout=300)
    assert canary.exists(), "where nothing holds it, its code runs"
    canary.unlink()
    with pytest.raises(InvalidRequestError):
        converted(bench(tmp_path / "home"), llamafactory, given)
    assert not canary.exists()


def test_non_files_and_wrong_sizes_are_refused(llamafactory: Engine, tiny: Path, tmp_path: Path) -> None:
    b, given = bench(tmp_path / "home"), model(tmp_path / "own", tiny, pytorch_model=b"no pickle")
    with pytest.raises(InvalidRequestError, match="hold something else than weights"):
        converted(b, llamafactory, given)
    start_conversion(b, llamafactory, given)
    over(lambda: conversion_status(b))
    end = read_json(b.run.baseline / "jobs" / "convert.2" / "exit.json")
    write_json(b.run.baseline / "jobs" / "convert.2" / "exit.json", {**end, "code": 0})
    (b.run.baseline / "work" / "convert" / "model.safetensors").symlink_to(tiny / "model.safetensors")
    with pytest.raises(InvalidRequestError, match=r"model\.safetensors is no plain file"):
        take_converted(b, given)
    assert not is_converted(conversion_folder(b.settings, given))


def test_in_a_plain_process_it_is_refused(
    llamafactory: Engine, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, b = model(tmp_path / "own", tiny, pytorch_model=hostile(tmp_path / "canary")), bench(tmp_path / "home")
    monkeypatch.setitem(vars(b), "sandbox", ProcessSandbox())
    with pytest.raises(InvalidRequestError, match="--allow-unsandboxed"):
        start_conversion(b, llamafactory, given)
    assert not (tmp_path / "canary").exists()
