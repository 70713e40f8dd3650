"""That generated code may run unprotected is said by who starts the process, and by nothing that a run is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from tuneloop.cli.main import cli
from tuneloop.cli.notes import dotenv_notes
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings, load_settings
from tuneloop.graph.state import State
from tuneloop.tools.runs.request import RunRequest
from tuneloop.tools.runs.spec import build_spec, spec_from_options

ASKED: dict[str, Any] = {"benchmark": "wordproblems", "base_model": "tiny"}
OPEN = (
    {"sandbox": "process"},
    {"allow_unsandboxed": True},
    {"unsandboxed": "always"},
    {"sandbox": "Process"},
    {"sandbox": ["process"]},
    {"TUNELOOP_UNSANDBOXED": "always"},
    {"settings": {"unsandboxed": "always"}},
)


@pytest.mark.parametrize("more", OPEN, ids=str)
@pytest.mark.parametrize("owner", ["never", "fallback", "always"])
def test_no_spec_takes_the_sandbox_away(more: dict[str, Any], owner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNELOOP_UNSANDBOXED", owner)
    for taken in (RunSpec, lambda **given: State(spec=given)):  # `graph.invoke`, a thread, a run's folder
        with pytest.raises(ValidationError):
            taken(**ASKED, **more)
    with pytest.raises(ValidationError):
        RunRequest(run_id="r", **ASKED, **more)  # MCP
    with pytest.raises((InvalidRequestError, ValidationError)):
        spec_from_options({**ASKED, **{name: str(value) for name, value in more.items()}}, Settings())  # chat


def test_a_file_in_the_working_directory_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / ".env"
    file.write_text("TUNELOOP_UNSANDBOXED=always\ntuneloop_unsandboxed=always\nFT_BASE_MODEL=tiny\n")
    found = load_settings(file)
    assert (found.unsandboxed, found.base_model) == ("never", "tiny")
    assert any("counts in the environment alone" in note for note in dotenv_notes(file))
    monkeypatch.setenv("TUNELOOP_UNSANDBOXED", "fallback")
    assert load_settings(file).unsandboxed == "fallback"


def test_the_seeds_variable_needs_the_owners_word_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_Coder_CoSTEER_env_type", "process")
    for owner in ("never", "fallback"):
        with pytest.raises(InvalidRequestError, match="protects nothing"):
            build_spec({**ASKED, "datasets": ()}, Settings(TUNELOOP_UNSANDBOXED=owner))
    assert build_spec({**ASKED, "datasets": ()}, Settings(TUNELOOP_UNSANDBOXED="always")).sandbox == "auto"


def test_the_command_line_wants_both_words() -> None:
    refused = CliRunner().invoke(cli, ["run", "--benchmark", "wordproblems", "--sandbox", "process"])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "--allow-unsandboxed" in refused.stderr
