"""`tuneloop pull --trust-folder`: an own run that is here is not signed again, and a failed adoption leaves it as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.crash.damage import make_home
from tests.object_store import Store
from tuneloop.cli.main import cli
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.lifecycle import adopt
from tuneloop.tools.runs.mirror import push_run
from tuneloop.tools.runs.signature import is_signed


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """An own run, signed, of which a copy lies in the storage."""
    make_home(tmp_path / "home")
    run = Home(tmp_path / "home").run("open")
    assert is_signed(run)
    store = Store(f"file://{tmp_path}/store")
    push_run(run, store.url, lambda *_: None)
    monkeypatch.setenv("FT_FILE_PATH", str(tmp_path / "home"))
    monkeypatch.setenv("TUNELOOP_STORAGE", store.url)
    return run


def test_an_own_run_that_is_here_is_not_taken_for_the_copy(run: RunFolder) -> None:
    before = run.signature.read_bytes()
    found = CliRunner().invoke(cli, ["pull", run.id, "--trust-folder"])
    assert found.exit_code == 2 and "run open is here" in found.output, found.output
    assert run.signature.read_bytes() == before


@pytest.mark.parametrize("signed", [True, False])
def test_a_failed_adoption_leaves_the_signature_as_it_was(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, signed: bool
) -> None:
    def fail(*_: object) -> None:
        raise InvalidRequestError("base model m is another one")

    monkeypatch.setattr(adopt, "move", fail)
    if not signed:
        run.signature.unlink()
    with pytest.raises(InvalidRequestError, match="another one"):
        adopt.adopt_run(run, Settings())
    assert is_signed(run) == signed and run.signature.exists() == signed


def test_what_its_jobs_will_read_is_said(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adopt, "move", lambda *_: None)
    run.signature.unlink()
    found = CliRunner().invoke(cli, ["pull", run.id, "--trust-folder"])
    assert found.exit_code == 0 and "is trusted from now on; its jobs read " in found.output, found.output
