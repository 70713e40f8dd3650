"""Engines: built once, believed only when whole; a tiny lock stands for the big ones."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import read_json
from tuneloop.core.job import Command, Limits
from tuneloop.core.layout import Home
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.choose import open_run_sandbox
from tuneloop.sandboxes.jobs import launch, log_tail, wait
from tuneloop.tools.engines import blueprint, ensure_engine, find, list_engines, remove_engine, verify_engine
from tuneloop.tools.engines.blueprint import (
    BUILDERS,
    ENGINE_BLUEPRINTS,
    Blueprint,
    engine_identity,
    interpreter,
    read_lock,
)
from tuneloop.tools.engines.build import build_engine, installer_environment, sibling_path
from tuneloop.tools.engines.engine import (
    MANIFEST,
    describe_engine,
    inspect_python,
    parse_release,
    read_manifest,
    unacceptable_versions,
    write_manifest,
)
from tuneloop.tools.engines.find import use_existing

ROOT = Path(__file__).parents[3]
HASHES = (
    "4721f391ed90541fddacab5acf947aa0d3dc7d27b2e1e8eda2be8970586c3274",
    "ff70335d468e7eb6ec65b95b99d3a2836546063f63acc5171de367e834932a81",
)
LOCK = f"# comment\nsix==1.17.0 \\\n    --hash=sha256:{HASHES[0]} \\\n    --hash=sha256:{HASHES[1]}\n"


def quiet(*_: object) -> None:
    """Nobody watches."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.engines.mkdir(parents=True)
    return home


@pytest.fixture
def tiny(tmp_path: Path) -> Blueprint:
    """One small package and one stand-in."""
    folder = tmp_path / "blueprints/tiny"
    (folder / "thing_stub/thing").mkdir(parents=True)
    (folder / "thing_stub/thing/__init__.py").write_text("WHAT = 'stub'\n")
    for device in ("cpu", "cuda"):
        (folder / f"lock-{device}.txt").write_text(LOCK)
    return Blueprint(name="tiny", folder=folder, module="six", imports=("six", "thing"), room=1 << 20)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's own environment without pip: packages are laid into it by hand."""
    path = tmp_path_factory.mktemp("own") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True)
    lay(path, "six", "1.17.0")
    return path


def lay(environment: Path, package: str, version: str) -> None:
    site = next(environment.glob("lib/python3.*/site-packages"))
    for old in site.glob(f"{package}-*.dist-info"):
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    info = site / f"{package}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    (info / "RECORD").write_text("")
    (site / package).mkdir(exist_ok=True)
    (site / package / "__init__.py").write_text(f"__version__ = {version!r}\n")


@pytest.mark.slow  # a real build
def test_two_builders_at_once_build_once(home, tiny):
    notes, engines = [], []

    def go():
        engines.append(build_engine(tiny, home, lambda note, *_: notes.append(note)))

    threads = [threading.Thread(target=go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert engines[0] == engines[1]
    assert sum("first import" in note for note in notes) == 1
    engine = engines[0]
    assert engine.packages["six"] == "1.17.0"
    assert sys.base_prefix in engine.readable
    assert verify_engine(engine) == []
    assert {path.name for path in home.engines.iterdir()} == {engine.folder.name, f".{engine.folder.name}.lock"}
    check_removal(home, engine)


def check_removal(home, engine):
    assert list_engines(home) == [engine]
    code = "import time; print('up', flush=True); time.sleep(30)"
    sleeper = subprocess.Popen([str(engine.python), "-c", code], stdout=subprocess.PIPE, text=True)
    assert sleeper.stdout is not None
    assert sleeper.stdout.readline() == "up\n"
    with pytest.raises(InvalidRequestError, match=f"in use by process {sleeper.pid}"):
        remove_engine(home, "tiny")
    sleeper.kill()
    sleeper.communicate()
    assert remove_engine(home, "tiny") == [engine.folder]
    assert list_engines(home) == []
    with pytest.raises(InvalidRequestError, match="no engine 'tiny'"):
        remove_engine(home, "tiny")


BUILDER = """
import sys
from pathlib import Path
from tuneloop.core.layout import Home
from tuneloop.tools.engines.blueprint import Blueprint
from tuneloop.tools.engines.build import build_engine as build
blueprint = Blueprint(name='tiny', folder=Path(sys.argv[1]), module='six', imports=('six', 'thing'), room=1)
build(blueprint, Home(Path(sys.argv[2])), lambda *a: print(a, flush=True))
"""


@pytest.mark.slow  # a real build
def test_killed_build_is_rebuilt(home, tiny):
    argv = [sys.executable, "-c", BUILDER, str(tiny.folder), str(home.root)]
    builder = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert builder.stdout
    for line in builder.stdout:
        if "packages" in line:
            break
    os.kill(builder.pid, signal.SIGKILL)
    builder.wait()
    builder.stdout.close()
    folder = home.engines / f"tiny-{engine_identity(tiny)}"
    assert folder.exists()
    assert list_engines(home) == []
    (folder / "leftover").touch()
    engine = build_engine(tiny, home, quiet)
    assert engine.folder == folder
    assert not (folder / "leftover").exists()
    assert not sibling_path(folder, "jobs").exists()
    assert read_manifest(folder / MANIFEST) == engine


@pytest.mark.slow  # a real build
def test_a_build_that_fails_leaves_no_manifest_and_says_why(home, tiny):
    for lock in tiny.folder.glob("lock-*.txt"):
        lock.write_text(LOCK.replace("1.17.0", "0.0.0.1"))
    with pytest.raises(InfrastructureError, match=r"step packages: error: .*six==0\.0\.0\.1"):
        build_engine(tiny, home, quiet)
    assert list_engines(home) == []
    asked = list(home.engines.glob(".*.jobs/*/command.json"))
    assert asked
    for file in asked:  # what a job may write is synced file by file when it ends: an engine has 30,000
        assert [Path(place).suffix for place in read_json(file)["write"]] == [".jobs"]


@pytest.mark.slow  # a real build
def test_engine_that_does_not_import_is_refused(home, tiny):
    with pytest.raises(InfrastructureError, match="import nonesuch"):
        build_engine(dataclasses.replace(tiny, imports=("nonesuch",)), home, quiet)
    assert list_engines(home) == []


def test_without_room_nothing_is_made(home, tiny):
    with pytest.raises(InvalidRequestError, match="GiB are free"):
        build_engine(dataclasses.replace(tiny, room=1 << 60), home, quiet)
    assert not list(home.engines.glob("tiny-*"))


def test_unsupported_python_takes_one_from_path_or_is_refused(home, tiny, tmp_path, monkeypatch):
    assert interpreter()[1] == Path(sys.executable).resolve(), "the project's own comes first"
    monkeypatch.setattr(blueprint, "PYTHONS", ((3, 97), (3, 98), (3, 99)))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        InvalidRequestError, match=r"need Python 3\.11 to 3\.14, .*`uv python install 3\.13`"
    ) as refused:
        build_engine(tiny, home, quiet)
    assert "\n" not in str(refused.value)
    assert not list(home.engines.iterdir())
    for minor in (97, 98):
        (tmp_path / f"python3.{minor}").symlink_to(sys.executable)
    assert interpreter()[0] == "python3.98", "the newest"


def test_an_environment_of_a_python_that_is_not_promised_is_refused(home, tiny, environment, monkeypatch):
    monkeypatch.setattr(find, "PYTHONS", ((3, 98),))
    wanted = dataclasses.replace(tiny, imports=("six",))
    with pytest.raises(InvalidRequestError, match=r"TINY_PATH=.*: its Python is 3\..*; right is 3\.11 to 3\.14"):
        use(wanted, environment, home)
    assert not list(home.engines.iterdir())


def test_identity_changes_with_everything_that_can_change_the_engine(tiny):
    first = engine_identity(tiny)
    assert engine_identity(dataclasses.replace(tiny)) == first
    stub = tiny.folder / "thing_stub/thing/__init__.py"
    stub.write_text("WHAT = 'other'\n")
    second = engine_identity(tiny)
    tiny.lock.write_text(LOCK.replace("--hash", f"--hash=sha256:{'0' * 64} --hash", 1))
    assert engine_identity(tiny) == second, "the same releases, known by one more file"
    tiny.lock.write_text("six==1.16.0\n")
    assert len({first, second, engine_identity(tiny)}) == 3


def test_what_pip_brought_is_in_the_engines_identity(environment):
    found = inspect_python(environment / "bin/python", ["six"])
    one = describe_engine("tiny", environment / "bin/python", found, "lock")
    other = describe_engine("tiny", environment / "bin/python", dataclasses.replace(found, torch="other"), "lock")
    assert one.identity != other.identity


def test_engine_without_its_interpreter_is_refused(environment, tmp_path):
    found = inspect_python(environment / "bin/python", ["six"])
    engine = describe_engine("tiny", environment / "bin/python", found)
    write_manifest(engine, tmp_path / MANIFEST)
    assert read_manifest(tmp_path / MANIFEST) == engine
    write_manifest(dataclasses.replace(engine, python=tmp_path / "gone"), tmp_path / MANIFEST)
    assert read_manifest(tmp_path / MANIFEST) is None
    (tmp_path / MANIFEST).write_text("{")
    assert read_manifest(tmp_path / MANIFEST) is None


def test_every_lock_is_exact_hashed_and_names_no_registry():
    locks = [BUILDERS, *(lock for b in ENGINE_BLUEPRINTS.values() for lock in b.folder.glob("lock-*.txt"))]
    for lock in (*locks, *ROOT.glob("locks/*.txt")):
        assert "://" not in lock.read_text()
        assert all(pin.hashes for pin in read_lock(lock))
    for engine in ENGINE_BLUEPRINTS.values():
        assert engine.optional or engine.pins["torch"] == "2.13.0"
        assert engine.pins["setuptools"] == read_lock(BUILDERS)[0].version
    assert (
        ENGINE_BLUEPRINTS["llamafactory"].pins["transformers"] == ENGINE_BLUEPRINTS["opencompass"].pins["transformers"]
    )


@pytest.mark.slow  # a real build
def test_a_file_that_the_lock_does_not_know_is_not_installed(home, tiny):
    for lock in tiny.folder.glob("lock-*.txt"):
        lock.write_text(f"six==1.17.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(InfrastructureError, match=r"step packages: .*[Hh]ash"):
        build_engine(tiny, home, quiet)
    tiny.lock.write_text("six==1.17.0\n")
    with pytest.raises(InfrastructureError, match=r"step packages: .*[Hh]ash"):
        build_engine(tiny, home, quiet)


def test_a_loose_pin_is_refused(tiny):
    tiny.lock.write_text("six>=1\n")
    with pytest.raises(ValueError, match="six>=1"):
        _ = tiny.pins


def own_engine_unwanted():
    raise AssertionError("the user's environment is enough")


def use(tiny, path, home, own=own_engine_unwanted):
    return use_existing(tiny, str(path), "TINY_PATH", home, own)


def test_an_environment_of_the_users_own(home, tiny, environment):
    wanted = dataclasses.replace(tiny, imports=("six",), accepts={"six": ("1.16", "2")})
    engine = use(wanted, environment, home)
    assert (engine.python, engine.packages["six"]) == (environment / "bin/python", "1.17.0")
    before = time.monotonic()
    assert use(wanted, environment, home) == engine
    assert time.monotonic() - before < 1
    lay(environment, "six", "3.0")
    with pytest.raises(InvalidRequestError, match=r"TINY_PATH=.*six is 3\.0; right is at least 1\.16 and below 2"):
        use(wanted, environment, home)
    lay(environment, "six", "1.17.0")


def test_an_environment_that_lacks_the_engine(home, tiny, environment):
    with pytest.raises(InvalidRequestError, match=r"TINY_PATH=.*import thing"):
        use(tiny, environment, home)


def test_a_folder_that_is_neither(home, tiny, tmp_path):
    with pytest.raises(InvalidRequestError, match="neither an environment"):
        use(tiny, tmp_path, home)


def test_a_checkout_borrows_our_environment(home, tiny, environment, tmp_path):
    package = tmp_path / "checkout/src/six"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('broken checkout')")
    wanted = dataclasses.replace(tiny, imports=("six",))
    own = describe_engine("tiny", environment / "bin/python", inspect_python(environment / "bin/python", ["six"]))
    with pytest.raises(InvalidRequestError, match="broken checkout"):
        use(wanted, tmp_path / "checkout", home, lambda: own)
    (package / "__init__.py").write_text("__version__ = 'mine'")
    engine = use(wanted, tmp_path / "checkout", home, lambda: own)
    assert engine.env == {"PYTHONPATH": str(tmp_path / "checkout/src")}
    assert str(tmp_path / "checkout/src") in engine.readable
    assert engine.identity != own.identity


def test_changed_packages_are_told(environment):
    engine = describe_engine("tiny", environment / "bin/python", inspect_python(environment / "bin/python", ["six"]))
    stale = dataclasses.replace(engine, packages={"six": "1.0", "gone": "2"})
    assert verify_engine(stale) == [
        "six is 1.17.0; it was 1.0 when the engine was made",
        "gone is gone; it was 2 when the engine was made",
    ]
    broken = dataclasses.replace(engine, python=Path("/bin/false"))
    assert "does not run" in verify_engine(broken)[0]


def test_versions():
    assert parse_release("0.9.5.dev0") == (0, 9, 5)
    assert parse_release("2.13.0+cpu") == (2, 13, 0)
    found = inspect_python(Path(sys.executable), [])
    assert unacceptable_versions(found, {"pip": ("0", "999")}) in ([], ["pip is not installed"])
    assert unacceptable_versions(found, {"nonesuch": ("0", "1")}) == ["nonesuch is not installed"]


def test_pip_gets_its_own_settings_and_no_secret():
    env = {"PIP_INDEX_URL": "u", "UV_PYTHON": "t", "https_proxy": "p", "HF_TOKEN": "secret", "HOME": "/h"}
    assert installer_environment(env) == {"PIP_INDEX_URL": "u", "https_proxy": "p", "HOME": "/h"}


def test_unknown_engines(tmp_path):
    with pytest.raises(InvalidRequestError, match="llamafactory, opencompass"):
        ensure_engine("nonesuch", Settings(FT_FILE_PATH=tmp_path))


def test_the_real_engines_work_and_show_no_more_than_they_list(llamafactory, opencompass, tmp_path):
    sandbox = open_run_sandbox("auto", "fallback")
    for engine in (llamafactory, opencompass):
        assert verify_engine(engine) == []
        code = f"import {engine.name}, torch, transformers; print(transformers.__version__, torch.ones(2).sum().item())"
        command = Command(
            argv=(str(engine.python), "-c", code),
            cwd=str(tmp_path),
            env={"OMP_NUM_THREADS": "1", **engine.env},
            read=engine.readable,
            write=(str(tmp_path),),
            limits=Limits(seconds=200),
        )
        job = launch(sandbox, tmp_path.parent / "jobs", engine.name, command)
        assert wait(sandbox, job).ok, log_tail(job)
        assert log_tail(job, 1) == "5.6.0 2.0"
    assert json.loads((llamafactory.folder / MANIFEST).read_text())["packages"]["llamafactory"] == "0.9.5"
