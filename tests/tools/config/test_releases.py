"""Snapshots, drift, other releases, checkouts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tests.conftest import SHARED_HOME
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.settings import Settings
from tuneloop.tools.config.catalog import Catalog, load_catalog
from tuneloop.tools.config.decision_filter import filter_parameters, unclassified
from tuneloop.tools.config.installed import find_catalog
from tuneloop.tools.config.releases import compare_configs, compare_releases, find_drift, take_snapshot
from tuneloop.tools.engines import Engine

WANTED = ("llamafactory", "transformers/__init__.py", "transformers/trainer_utils.py", "transformers/training_args")
RELEASES = {"0.9.3": "4.52.4", "0.9.4": "4.57.1"}


def snapshot_of(catalog: Catalog, path: Path, **changes: dict[str, object]) -> Path:
    """A snapshot that says what the source says, but for `changes`."""
    said = {
        p.name: {"default": p.default, "choices": list(p.choices), "settable": p.settable}
        for p in catalog.parameters.values()
    }
    for name, change in changes.items():
        said[name] = said.get(name, {"default": None, "choices": [], "settable": True}) | change
    path.write_text(json.dumps({"versions": dict(catalog.versions), "parameters": said}))
    return path


def test_a_true_snapshot_shows_no_drift(engine_packages: Path, catalog: Catalog, tmp_path: Path) -> None:
    assert find_drift(load_catalog(engine_packages, snapshot=snapshot_of(catalog, tmp_path / "s.json"))) == []


def test_drift_is_named(engine_packages: Path, catalog: Catalog, tmp_path: Path) -> None:
    path = snapshot_of(catalog, tmp_path / "s.json", lora_rank={"default": 4}, gone={}, stage={"choices": ["sft"]})
    found = {d.name: d.text for d in find_drift(load_catalog(engine_packages, snapshot=path))}
    assert set(found) == {"lora_rank", "gone", "stage"}
    assert "8" in found["lora_rank"] and "4" in found["lora_rank"]
    assert "'dpo'" in found["stage"]


def test_the_snapshot_completes_defaults_that_the_source_computes(
    engine_packages: Path, catalog: Catalog, tmp_path: Path
) -> None:
    path = snapshot_of(catalog, tmp_path / "s.json", optim={"default": "adamw_torch"}, lora_rank={"default": 4})
    found = load_catalog(engine_packages, snapshot=path).parameters
    assert not catalog.parameters["optim"].literal
    assert found["optim"].default == "adamw_torch"
    assert found["lora_rank"].default == 8


def test_a_broken_snapshot_is_said(engine_packages: Path, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("{}")
    with pytest.raises(InvalidRequestError, match="no snapshot"):
        load_catalog(engine_packages, snapshot=tmp_path / "s.json")


def test_the_engines_own_classes_say_what_the_source_says(
    llamafactory: Engine, catalog: Catalog, tmp_path: Path
) -> None:
    settings = Settings(FT_FILE_PATH=tmp_path)
    (tmp_path / "engines").mkdir()
    path = take_snapshot(llamafactory, settings)
    assert find_drift(load_catalog(catalog.site_packages, snapshot=path)) == []


def test_a_checkout_borrows_the_engines_transformers(llamafactory: Engine, catalog: Catalog, tmp_path: Path) -> None:
    package = tmp_path / "LLaMA-Factory/src/llamafactory"
    for part in ("hparams", "extras", "data"):
        shutil.copytree(catalog.factory / part, package / part)
    (package / "__init__.py").touch()
    file = package / "hparams/finetuning_args.py"
    old, new = (f"    lora_rank: int = field(\n        default={value}," for value in (8, 99))
    file.write_text(file.read_text().replace(old, new))
    settings = Settings(FT_FILE_PATH=SHARED_HOME, LLAMA_FACTORY_PATH=str(tmp_path / "LLaMA-Factory"))
    found = find_catalog(settings)
    assert found.parameters["lora_rank"].default == 99
    assert found.versions["transformers"] == catalog.versions["transformers"]
    assert found.factory == package
    assert [d.name for d in compare_releases(catalog, found)] == ["lora_rank"]


def test_without_llamafactory_the_cure_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="tuneloop engines build llamafactory"):
        find_catalog(Settings(FT_FILE_PATH=tmp_path))
    with pytest.raises(InvalidRequestError, match="LLAMA_FACTORY_PATH"):
        find_catalog(Settings(FT_FILE_PATH=tmp_path, LLAMA_FACTORY_PATH=str(tmp_path)))


def test_configs_differ_by_what_the_engine_sees(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("lora_rank: 8\nlearning_rate: 1e-4\n")
    (tmp_path / "b.yaml").write_text("learning_rate: 2e-4\n")
    assert [d.name for d in compare_configs(catalog, tmp_path / "a.yaml", tmp_path / "b.yaml")] == ["learning_rate"]


@pytest.mark.slow
@pytest.mark.parametrize("version", RELEASES)
def test_other_releases_are_read(version: str, catalog: Catalog) -> None:
    found = load_catalog(release(version))
    assert found.versions == {"llamafactory": version, "transformers": RELEASES[version]}
    assert len(found.parameters) > 320
    assert unclassified(found) == []
    assert all(p.help for p in found.parameters.values() if p.owner != "TrainingArguments")
    assert found.parameters["lora_rank"].default == 8
    assert 30 <= len(filter_parameters(found, {"method": "lora", "quantization": "4bit"})) <= 70
    assert any(d.name == "use_asft_loss" for d in compare_releases(found, catalog))


def release(version: str) -> Path:
    """The sources of a release and its transformers, fetched once into the home of the tests."""
    folder = SHARED_HOME / "releases" / version
    if not (folder / "done").is_file():
        wheels = folder / "wheels"
        for pin in (f"llamafactory=={version}", f"transformers=={RELEASES[version]}"):
            argv = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels), pin]
            subprocess.run(argv, check=True, env=dict(os.environ))
        for wheel in wheels.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                wanted = [
                    n
                    for n in archive.namelist()
                    if n.startswith("llamafactory") or "training_args" in n or "dist-info/METADATA" in n
                ]
                wanted += [
                    n for n in archive.namelist() if n in ("transformers/__init__.py", "transformers/trainer_utils.py")
                ]
                archive.extractall(folder, wanted)
        (folder / "done").write_text(time.strftime("%Y-%m-%d"))
    return folder
