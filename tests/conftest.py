"""Shared by all tests: one home with engines and the embedded base model, made once and kept between test runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuneloop.core.settings import Settings
from tuneloop.tools import models
from tuneloop.tools.engines import Engine, ensure_engine

ROOT = Path(__file__).parent.parent
SHARED_HOME = Path(os.environ.get("TUNELOOP_TEST_HOME", ROOT / ".test_home"))


def quiet(what: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the developer's `.env` or FT_ variables, or writes into the working directory's home."""
    for name in list(os.environ):
        if name.upper().startswith(("FT_", "TUNELOOP_", "BENCHMARK_", "LLAMA_FACTORY_", "OPENCOMPASS_", "HF_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path / "home"))


@pytest.fixture(scope="session")
def shared_settings() -> Settings:
    """Settings whose home holds engines and the tiny model."""
    return Settings(FT_FILE_PATH=SHARED_HOME)


@pytest.fixture(scope="session")
def llamafactory(shared_settings: Settings) -> Engine:
    """The real training engine."""
    return ensure_engine("llamafactory", shared_settings, quiet)


@pytest.fixture(scope="session")
def opencompass(shared_settings: Settings) -> Engine:
    """The real evaluation engine."""
    return ensure_engine("opencompass", shared_settings, quiet)


@pytest.fixture(scope="session")
def tiny(shared_settings: Settings) -> Path:
    """The embedded base model's folder."""
    return models.resolve("tiny", shared_settings, quiet).root


@pytest.fixture
def warm_home(tmp_path: Path, shared_settings: Settings, llamafactory: Engine, opencompass: Engine, tiny: Path) -> Path:
    """A home of the test's own whose engines and models are the shared ones."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("engines", "models"):
        (home / name).symlink_to(SHARED_HOME / name)
    return home
