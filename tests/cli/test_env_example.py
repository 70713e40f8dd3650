"""`.env.example` says all settings, says them right, and means nothing as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.cli.env_example import env_example
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.settings import PROCESS_ONLY, Settings, load_settings

ROOT = Path(__file__).parents[2]


def test_the_file_is_what_the_settings_declare() -> None:
    text = (ROOT / ".env.example").read_text()
    assert text == env_example(), "run: python -m tuneloop.cli.env_example > .env.example"
    for field in Settings.model_fields.values():
        if field.alias in PROCESS_ONLY:
            continue
        assert text.count(f"# {field.alias}=") == 1
        assert field.description


def test_uncommented_it_still_means_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FT_FILE_PATH", raising=False)
    file = tmp_path / ".env"
    lines = [line.removeprefix("# ") for line in env_example().splitlines() if "=" in line]
    file.write_text("\n".join(lines))
    assert load_settings(file) == Settings()


def test_json_values_work_in_the_file_and_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / ".env"
    file.write_text("""TUNELOOP_MCP_URLS='{"data": "http://127.0.0.1:8125/mcp"}'\n""")
    assert load_settings(file).mcp_urls == {"data": "http://127.0.0.1:8125/mcp"}
    monkeypatch.setenv("TUNELOOP_MCP_URLS", '{"params": "http://127.0.0.1:1/mcp"}')
    assert load_settings(file).mcp_urls == {"params": "http://127.0.0.1:1/mcp"}
    monkeypatch.setenv("TUNELOOP_MCP_URLS", "nonsense")
    with pytest.raises(InvalidRequestError, match="TUNELOOP_MCP_URLS='nonsense'"):
        load_settings(file)
