"""`tuneloop engines` on a home without and with an engine."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tuneloop.cli.engines import command
from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.engines.engine import MANIFEST, Engine, write_manifest


def invoke(*args: str):
    return CliRunner().invoke(command, args)


@pytest.fixture
def engine(tmp_path) -> Engine:
    """A manifest around this very Python."""
    folder = tmp_path / "home/engines/llamafactory-0123"
    folder.mkdir(parents=True)
    python = Path(sys.executable)
    made = Engine("llamafactory", folder, python, python.parent, (), "0.9.5", "abc", {}, {"click": "0.0"})
    write_manifest(made, folder / MANIFEST)
    return made


def test_an_empty_home():
    assert json.loads(invoke("list", "--json").output) == []
    assert "engines build" in invoke("list").output
    assert isinstance(invoke("verify").exception, InvalidRequestError)
    assert isinstance(invoke("remove", "llamafactory").exception, InvalidRequestError)


def test_list(engine):
    row = json.loads(invoke("list", "--json").output)[0]
    assert (row["name"], row["version"], row["folder"]) == ("llamafactory", "0.9.5", str(engine.folder))
    assert "llamafactory" in invoke("list").output


def test_verify_tells_what_is_wrong(engine):
    result = invoke("verify", "llamafactory")
    assert result.exit_code == 1
    assert "import llamafactory.cli: ModuleNotFoundError" in result.output
    assert "it was 0.0 when" in result.output
    assert "not built: opencompass" in str(invoke("verify", "opencompass").exception)


def test_remove(engine):
    assert f"removed {engine.folder}" in invoke("remove", "llamafactory").output
    assert not engine.folder.exists()


def test_unknown_names_are_refused():
    assert invoke("build", "nonesuch").exit_code == 2
