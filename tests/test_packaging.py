"""Wheel and sdist hold the whole package, and work where they are installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent
NEEDED = (
    "tuneloop/py.typed",
    "tuneloop/prompts/researcher.md",
    "tuneloop/engines/build.txt",
    "tuneloop/engines/llamafactory/lock-cpu.txt",
    "tuneloop/engines/llamafactory/torch.txt",
    "tuneloop/engines/llamafactory/torchaudio_stub/torchaudio/__init__.py",
    "tuneloop/engines/opencompass/measure.py",
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
