"""What a user sees of the hub: rows, or one line and the right exit code."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import COMMAND
from tests.hub.server import LocalHub


def inspect(name: str, home: Path) -> subprocess.CompletedProcess[str]:
    argv = [*COMMAND, "data", "inspect", name, "--json"]
    return subprocess.run(
        argv, env={**os.environ, "FT_FILE_PATH": str(home)}, cwd=home.parent, capture_output=True, text=True
    )


def test_a_registered_set_is_fetched_and_shown(hub: LocalHub, tmp_path: Path) -> None:
    done = inspect("deepscaler", tmp_path / "home")
    assert done.returncode == 0, done.stderr
    assert "deepscaler.json" in done.stdout
    assert json.loads(done.stdout)


@pytest.mark.parametrize(
    ("status", "headers", "code", "said"),
    [
        (403, {"X-Error-Code": "GatedRepo"}, 2, "is gated: accept its licence at"),
        (404, {"X-Error-Code": "RepoNotFound"}, 2, "is not on http://127.0.0.1"),
        (429, {"Retry-After": "7200"}, 1, "asks for a pause of 7200 s"),
        (404, {}, 1, "does not answer as a hub does"),
    ],
)
def test_what_cannot_be_had_is_one_line(
    hub: LocalHub, tmp_path: Path, status: int, headers: dict[str, str], code: int, said: str
) -> None:
    hub.fail("GET /api", status=status, headers=headers, times=None)
    done = inspect("org/name", tmp_path / "home")
    assert done.returncode == code
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list((tmp_path / "home").rglob("manifest.json"))
