"""The container files: what they name is there, and they say nothing that the Makefile says."""

from __future__ import annotations

import json
import re

import yaml

from tests.conftest import ROOT
from tuneloop.core.settings import Settings

TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


def test_dockerfile_calls_the_makefile_and_makes_homes_that_jobs_can_walk() -> None:
    said = (ROOT / "Dockerfile").read_text()
    assert set(re.findall(r"make ([a-z]+)", said.partition("WORKDIR")[2])) == {"install"} <= TARGETS
    assert re.search(r"^ARG BASE=\S+\nFROM \$\{BASE\}$", said, re.M)
    home = re.search(r"FT_FILE_PATH=(\S+)", said)
    assert home and home[1].startswith("/var/"), "the landlock sandbox runs jobs as a user of their own"
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert ".*" in ignored, ".env holds keys, .git and .venv are large"


def test_compose_file_passes_settings_and_no_secret() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    known = {field.alias for field in Settings.model_fields.values()}
    given = services["tuneloop"]["environment"]
    assert set(given) <= known
    assert [name for name, value in given.items() if value] == ["TUNELOOP_CHECKPOINT_URL"]
    assert "${POSTGRES_PASSWORD:?" in given["TUNELOOP_CHECKPOINT_URL"]
    assert services["postgres"]["environment"] == {"POSTGRES_PASSWORD": None}


def test_devcontainer_calls_the_makefile() -> None:
    said = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    words = said["postCreateCommand"].split()
    assert words[0] == "make" and set(words[1:]) <= TARGETS
