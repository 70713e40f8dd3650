"""The embedded base model is shipped: copied whole, never when changed, and made again to the same score."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import linked_home, quiet, tuneloop
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.settings import Settings
from tuneloop.tools.embedded.make_tiny import make
from tuneloop.tools.engines import Engine
from tuneloop.tools.hub.models import check_model, resolve_model
from tuneloop.tools.models import tiny as shipped


def test_resolving_needs_no_engine(tmp_path: Path) -> None:
    found = resolve_model("tiny", Settings(FT_FILE_PATH=tmp_path / "home"), quiet)
    assert set(shipped.SHA256) | {"manifest.json"} == {path.name for path in found.root.iterdir()}
    assert not (tmp_path / "home" / "engines").exists()


@pytest.mark.parametrize("name", sorted(shipped.SHA256))
def test_changed_or_missing_file_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "SHIPPED", tmp_path / "shipped")
    shutil.copytree(Path(shipped.__file__).parents[1] / "embedded" / "tiny_model", tmp_path / "shipped")
    file = tmp_path / "shipped" / name
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    settings = Settings(FT_FILE_PATH=tmp_path / "home")
    with pytest.raises(InvalidRequestError, match=f"{name} was changed"):
        resolve_model("tiny", settings, quiet)
    with pytest.raises(InvalidRequestError, match=f"{name} was changed"):
        check_model("tiny")
    file.unlink()
    with pytest.raises(InvalidRequestError, match=f"{name} is missing"):
        resolve_model("tiny", settings, quiet)
    assert not (tmp_path / "home" / "models" / "tiny").exists()


@pytest.mark.soak
def test_made_again_it_scores_alike(
    tmp_path: Path, shared_settings: Settings, llamafactory: Engine, opencompass: Engine, tiny: Path
) -> None:
    """The same bytes where processor and torch are the same; elsewhere intervals that overlap."""
    again = tmp_path / "again"
    make(again, shared_settings, quiet)
    if (again / "model.safetensors").read_bytes() == (tiny / "model.safetensors").read_bytes():
        return
    home = linked_home(tmp_path / "home")
    printed = [tuneloop(home, "eval", str(m), "--benchmark", "wordproblems", "--json") for m in (tiny, again)]
    first, second = (json.loads(text)["models"][0]["results"][0] for text in printed)
    assert first["low"] <= second["high"]
    assert second["low"] <= first["high"]
