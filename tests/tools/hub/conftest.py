"""Settings that lead to the local hub, and no waiting between two tries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.modelscope import local_modelscope
from tests.hub.server import LocalHub
from tuneloop.core.settings import Settings
from tuneloop.tools.hub import http


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits are counted, not slept."""
    monkeypatch.setattr(http, "WAITS", (0.0, 0.0, 0.0, 0.0))


@pytest.fixture
def settings(tmp_path: Path, hub: LocalHub) -> Settings:
    """HF_ENDPOINT is in the environment."""
    return Settings(FT_FILE_PATH=tmp_path)


@pytest.fixture
def modelscope(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """A ModelScope that FT_HUB leads to."""
    with local_modelscope() as made:
        monkeypatch.setenv("FT_HUB", "ModelScope")
        monkeypatch.setenv("MODELSCOPE_ENDPOINT", made.endpoint)
        yield made
