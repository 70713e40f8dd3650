"""Runs where little of what one is used to is there, and where nothing has a plain name."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import COMMAND, DEFAULT, ROOT, SMALL
from tuneloop.core.files import read_json
from tuneloop.tools.models.tiny import SHIPPED

pytestmark = pytest.mark.soak
ODD = """it's "odd" [a] {b} $HOME #1 100% 学ü"""


def is_claimed(home: Path) -> bool:
    (report,) = home.glob("runs/*/report.json")
    return bool(read_json(report)["claim"]["claimed"])


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_no_home_c_locale_tiny_tmp_small_shm_strict_umask(warm_home: Path) -> None:
    place = Path("/var/tmp") / warm_home.parent.name
    try:
        shutil.copytree(warm_home, place / "home", symlinks=True)
        given = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "FT_FILE_PATH": str(place / "home"), **SMALL}
        words = ["env", "-i", *(f"{k}={v}" for k, v in given.items()), *COMMAND, "run", *DEFAULT]
        script = (
            "set -e; mount --make-rprivate /; mount -t tmpfs -o noexec,size=16m tmpfs /tmp;"
            f"mount -t tmpfs -o size=64m tmpfs /dev/shm; umask 077; cd {place}; exec {shlex.join(words)}"
        )
        done = subprocess.run(["unshare", "-m", "bash", "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        assert is_claimed(place / "home")
    finally:
        shutil.rmtree(place, ignore_errors=True)


def test_benchmark_data_and_model_may_have_any_name(warm_home: Path) -> None:
    place = warm_home.parent / ODD
    place.mkdir()
    subprocess.run([sys.executable, str(ROOT / "examples" / "own_task" / "make.py"), str(place)], check=True)
    shutil.copytree(SHIPPED, place / "model")
    words = ["run", "--benchmark", f"{place}/benchmark", "--dataset", f"{place}/data", "--base-model", f"{place}/model"]
    env = {**os.environ, "FT_FILE_PATH": str(warm_home)}
    done = subprocess.run([*COMMAND, *words, "--loop-n", "1"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert is_claimed(warm_home)
