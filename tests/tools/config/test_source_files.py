"""The release's files and constants, and that nothing else can be read."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneloop.core.errors import ToolError
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.source_files import parameter_files, read_source, release_constants

PIECES = [
    "..",
    ".",
    "/",
    "\\",
    "%2e",
    "%2f",
    "..%2f",
    "%252e",
    "\x00",
    "~",
    "etc",
    "passwd",
    "hparams",
    "extras",
    "constants",
]
PIECES += ["parser", ".py", "model_args", "file://", "C:", "‥", "．", "∕", "llamafactory", "__init__", " "]


def test_the_seven_files(catalog: Catalog) -> None:
    files = parameter_files(catalog)
    assert {"model_args.py", "data_args.py", "finetuning_args.py", "generating_args.py"} <= set(files)
    for name in ("model_args.py", "model_args", "hparams/model_args.py"):
        assert "class BaseModelArguments" in read_source(catalog, name)[1]


@settings(max_examples=400)
@given(name=st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join) | st.text(max_size=60))
def test_no_name_leads_elsewhere(name: str, catalog: Catalog) -> None:
    files = parameter_files(catalog)
    try:
        found, text = read_source(catalog, name)
    except ToolError:
        return
    assert found in files
    assert text == files[found].read_text()


@pytest.mark.parametrize(
    "name",
    [
        "../extras/constants.py",
        "/etc/passwd",
        "..%2fextras%2fconstants.py",
        "hparams/../cli.py",
        "__init__.py",
        "",
        "model_args.py/../../cli.py",
    ],
)
def test_known_tricks(name: str, catalog: Catalog) -> None:
    with pytest.raises(ToolError):
        read_source(catalog, name)


def test_links_that_lead_out_are_not_followed(catalog: Catalog, tmp_path: Path) -> None:
    shutil.copytree(catalog.factory / "hparams", tmp_path / "llamafactory/hparams")
    secret = tmp_path / "secret.py"
    secret.write_text("key = 1")
    (tmp_path / "llamafactory/hparams/leak.py").symlink_to(secret)
    elsewhere = replace(catalog, factory=tmp_path / "llamafactory")
    assert "leak.py" not in parameter_files(elsewhere)
    with pytest.raises(ToolError, match="no file"):
        read_source(elsewhere, "leak.py")


def test_constants(catalog: Catalog) -> None:
    found = release_constants(catalog)
    assert found["METHODS"] == ["full", "freeze", "lora", "oft"]
    assert set(found["TRAINING_STAGES"].values()) == {"sft", "rm", "ppo", "dpo", "kto", "pt"}
    assert "values" in found["SUPPORTED_MODELS"]
    assert len(release_constants(catalog, "supported_models")["SUPPORTED_MODELS"]) > 400
    with pytest.raises(ToolError, match="did you mean METHODS"):
        release_constants(catalog, "METHOD")
