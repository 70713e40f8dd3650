"""Wheel and sdist hold the whole package, and work where they are installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tuneloop.tools.engines.blueprint import read_lock
from tuneloop.tools.engines.build import UV

ROOT = Path(__file__).parent.parent
NEEDED = (
    "tuneloop/py.typed",
    "tuneloop/prompts/researcher.md",
    "tuneloop/engines/build.txt",
    "tuneloop/engines/llamafactory/lock-cpu.txt",
    "tuneloop/engines/llamafactory/torch.txt",
    "tuneloop/engines/llamafactory/torchaudio_stub/torchaudio/__init__.py",
    "tuneloop/engines/opencompass/measure.py",
    "tuneloop/tools/embedded/tiny_model/model.safetensors",
    "tuneloop/sandboxes/supervisor.py",
    "tuneloop/agents/policy/__init__.py",
    "tuneloop/graph/nodes/finish.py",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    argv = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(argv, check=True, capture_output=True)
    return out


def test_every_dependency_has_an_upper_bound_and_the_lock_is_within() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    locked = {pin.name.replace("_", "-"): pin.version for pin in read_lock(ROOT / "locks" / "main.txt")}
    for wanted in map(Requirement, texts):
        assert any(bound.operator in ("<", "==") for bound in wanted.specifier), wanted
        version = locked.get(wanted.name.replace("_", "-"))
        assert version is None or version in wanted.specifier, wanted


@pytest.mark.slow
def test_the_wheel_comes_whole_out_of_the_sdist(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as z:
        names = set(z.namelist())
    missing = [n for n in NEEDED if n not in names]
    assert missing == []
    assert not [n for n in names if n.startswith(("tools/", "graph/", "tests/"))]
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as t:
        assert not [m.name for m in t.getmembers() if m.issym()]


@pytest.mark.slow
def test_an_installed_wheel_works_outside_the_checkout(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    env = {**os.environ, "PYTHONPATH": str(site), "FT_FILE_PATH": str(tmp_path / "home")}
    code = "import tuneloop, tuneloop.prompts, tuneloop.graph.server.app; from tuneloop.tools.jobs.machine import ENGINES\n"
    code += "assert (ENGINES / 'opencompass' / 'measure.py').is_file(); print(tuneloop.__file__)"
    p = subprocess.run([sys.executable, "-P", "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    assert p.stdout.strip() == str(site / "tuneloop" / "__init__.py")
    listed = [sys.executable, "-P", "-m", "tuneloop.cli.main", "list", "benchmarks", "--json"]
    p = subprocess.run(listed, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert '"wordproblems"' in p.stdout, p.stderr


PIPX = (sys.executable, "-m", "pipx")
WAYS = {
    "pipx": ((*PIPX, "install", "--python", sys.executable, "WHEEL"), ("bin/tuneloop",)),
    "uv tool": ((*UV, "tool", "install", "--python", sys.executable, "WHEEL"), ("bin/tuneloop",)),
    "uvx": (None, (*UV, "tool", "run", "--python", sys.executable, "--from", "WHEEL", "tuneloop")),
}


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, str]:
    """Tools are installed below the test's folder, as locked: no release of somebody else's breaks a test."""
    constraints = tmp_path / "constraints.txt"
    pins = read_lock(ROOT / "locks" / "main.txt")
    constraints.write_text("".join(f"{pin.name}=={pin.version}\n" for pin in pins))
    places = {"PIPX_HOME": "pipx", "PIPX_BIN_DIR": "bin", "PIPX_MAN_DIR": "man"}
    places |= {"UV_TOOL_DIR": "tools", "UV_TOOL_BIN_DIR": "bin", "FT_ENGINES_DIR": "own"}
    own = {name: str(tmp_path / place) for name, place in places.items()}
    return {**os.environ, **own, "PIP_CONSTRAINT": str(constraints)}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_tools_that_people_install_with(built: Path, tools: dict[str, str], tmp_path: Path, way: str) -> None:
    (wheel,) = built.glob("*.whl")
    install, command = ([word.replace("WHEEL", str(wheel)) for word in words or ()] for words in WAYS[way])

    def done(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(argv, env={**tools, **env}, cwd=tmp_path, capture_output=True, text=True)

    if install:
        assert (p := done(*install)).returncode == 0, p.stderr
    p = done(*command, "list", "benchmarks", "--json")
    assert '"wordproblems"' in p.stdout, p.stderr
    if install:  # the wheel's own uv is asked, and finds nothing
        p = done(*command, "engines", "build", UV_OFFLINE="1", UV_CACHE_DIR=str(tmp_path / "empty"))
        assert (p.returncode, "llamafactory was not built, step builders: error: " in p.stderr) == (1, True), p.stderr
