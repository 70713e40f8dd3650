"""Engines that all homes of a user share: links to them, refusals, what `clean` knows of other homes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tuneloop.core import settings as core_settings
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.layout import Home
from tuneloop.core.settings import ROOTS_ENGINES, Settings, default_engines_dir
from tuneloop.tools.engines import ensure_engine, list_engines, remove_engine, verify_engine
from tuneloop.tools.engines.blueprint import ENGINE_BLUEPRINTS, engine_identity
from tuneloop.tools.engines.engine import MANIFEST, Engine, write_manifest
from tuneloop.tools.engines.find import check_engines, find_built_engine, find_pinned_engine, linked_homes

NAME = "llamafactory"


@pytest.fixture
def engines(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "engines"


@pytest.fixture
def built(engines: Path) -> Engine:
    """A manifest where the engine of this release would be built."""
    folder = engines / f"{NAME}-{engine_identity(ENGINE_BLUEPRINTS[NAME])}"
    (folder / "bin").mkdir(parents=True)
    python = Path(sys.executable)
    engine = Engine(NAME, folder, python, python.parent, (), "0.9.5", "abc")
    write_manifest(engine, folder / MANIFEST)
    return engine


def never(what: str, done: int, total: int) -> None:
    pytest.fail(f"{what}: nothing is to be built")


def home(tmp_path: Path, engines: Path, name: str = "one") -> Settings:
    return Settings(FT_FILE_PATH=tmp_path / name, FT_ENGINES_DIR=engines)


def test_a_home_has_a_link_and_a_second_one_builds_nothing(tmp_path: Path, engines: Path, built: Engine) -> None:
    for name in ("one", "two", "two"):
        settings = home(tmp_path, engines, name)
        assert ensure_engine(NAME, settings, never) == built
        (link,) = (tmp_path / name / "engines").iterdir()
        assert link.is_symlink()
        assert link.resolve() == built.folder
        assert find_pinned_engine(NAME, settings, "abc") == built
        assert list_engines(settings.home) == [built]
    assert {one.root for one in linked_homes(home(tmp_path, engines).home)} == {tmp_path / "one", tmp_path / "two"}


def test_a_run_finds_its_engine_when_engines_are_built_elsewhere(tmp_path: Path, engines: Path, built: Engine) -> None:
    ensure_engine(NAME, home(tmp_path, engines), never)
    elsewhere = home(tmp_path, tmp_path / "elsewhere")
    assert find_built_engine(NAME, elsewhere) is None
    assert find_pinned_engine(NAME, elsewhere, "abc") == built


@pytest.mark.parametrize("place", [".", "..", "bin", MANIFEST])
def test_an_engine_that_others_can_write_is_refused(tmp_path: Path, engines: Path, built: Engine, place: str) -> None:
    settings = home(tmp_path, engines)
    path = (built.folder / place).resolve()
    path.chmod(path.stat().st_mode | 0o020)
    for use in (find_built_engine, lambda name, settings: find_pinned_engine(name, settings, "abc"), ensure_engine):
        with pytest.raises(InvalidRequestError, match=rf"{path}: another user can write it; .*FT_ENGINES_DIR"):
            use(NAME, settings)
    assert verify_engine(built)[0] == f"{path}: another user can write it"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file away")
def test_an_engine_of_another_user_is_refused(tmp_path: Path, engines: Path, built: Engine) -> None:
    os.chown(built.folder / MANIFEST, 12345, -1)
    with pytest.raises(InvalidRequestError, match="user 12345 can write it"):
        ensure_engine(NAME, home(tmp_path, engines))


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidRequestError, match=r"file/engines: Not a directory; right is FT_ENGINES_DIR"):
        ensure_engine(NAME, home(tmp_path, tmp_path / "file" / "engines"))


def test_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, engines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines.mkdir(parents=True)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with pytest.raises(InvalidRequestError, match="cannot be written; right is FT_ENGINES_DIR"):
        ensure_engine(NAME, home(tmp_path, engines))
    assert list(engines.iterdir()) == []
    (engines / f"{NAME}-abc").mkdir()
    with pytest.raises(InvalidRequestError, match="cannot be written"):
        remove_engine(home(tmp_path, engines).home, NAME)
    assert (engines / f"{NAME}-abc").is_dir()


def test_what_a_run_needs_is_looked_at_before_it_and_nothing_is_made(
    tmp_path: Path, engines: Path, built: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_engines(home(tmp_path, engines))
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidRequestError, match="file/engines cannot be made; right is FT_ENGINES_DIR"):
        check_engines(home(tmp_path, tmp_path / "file" / "engines"))
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    for folder, word in ((engines, "written"), (tmp_path / "new" / "engines", "made")):
        with pytest.raises(InvalidRequestError, match=f"{folder} cannot be {word}; right is FT_ENGINES_DIR"):
            check_engines(home(tmp_path, folder))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "file"]


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_an_engine_whose_python_is_closed_to_the_user_is_none(open_folder: Path) -> None:
    """As root's, made with a Python in its home."""
    closed, folder = open_folder / "closed", open_folder / f"{NAME}-abc"
    (closed / "bin").mkdir(parents=True)
    folder.mkdir()
    (closed / "bin/python").touch()
    write_manifest(Engine(NAME, folder, closed / "bin/python", closed / "bin", (), "0.9.5", "abc"), folder / MANIFEST)
    (folder / MANIFEST).chmod(0o644)
    assert len(list_engines(Home(open_folder, open_folder))) == 1
    closed.chmod(0o700)
    os.seteuid(12345)
    try:
        assert list_engines(Home(open_folder, open_folder)) == []
    finally:
        os.seteuid(0)


def test_nothing_is_built_where_others_can_write(tmp_path: Path, engines: Path) -> None:
    engines.mkdir(parents=True)
    engines.chmod(0o775)
    with pytest.raises(InvalidRequestError, match=rf"{engines}: another user can write it; right is `chmod go-w`"):
        ensure_engine(NAME, home(tmp_path, engines))
    assert list(engines.iterdir()) == []


def test_what_is_new_can_be_walked_whatever_the_umask(tmp_path: Path, engines: Path) -> None:
    old = os.umask(0o077)
    try:
        with pytest.raises(InvalidRequestError):
            ensure_engine(NAME, Settings(FT_FILE_PATH=tmp_path, FT_ENGINES_DIR=engines, LLAMA_FACTORY_PATH="/nowhere"))
    finally:
        os.umask(old)
    assert engines.stat().st_mode & 0o777 == engines.parent.stat().st_mode & 0o777 == 0o755


def test_where_engines_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FT_ENGINES_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert Settings().home.engines == ROOTS_ENGINES
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert Settings().home.engines == tmp_path / "tuneloop" / "engines"
    assert Settings(FT_FILE_PATH=tmp_path, FT_ENGINES_DIR="engines").home.engines == tmp_path / "engines"
    monkeypatch.setattr(core_settings, "user_cache_path", lambda _: Path("~/.cache"))
    assert default_engines_dir() is None
    assert Settings(FT_FILE_PATH=tmp_path).home == Home(tmp_path)
