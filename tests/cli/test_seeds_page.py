"""docs/seeds.md as written: its commands are run, its settings are loaded, its defaults are ours."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tests.conftest import SHARED_HOME
from tuneloop.cli.main import cli, expand_help
from tuneloop.cli.notes import FOREIGN_KEYS, dotenv_notes, settings_notes
from tuneloop.core.settings import Settings, load_settings
from tuneloop.mcp_servers.main import command as mcp_server
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.hub import datasets

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "seeds.md").read_text()
# Of the evaluation in its container: read by `tuneloop eval` alone.
OF_EVAL = {
    *("ADAPTER_PATH", "BASE_MODEL", "MODEL_ABBR", "BATCH_SIZE", "NUM_GPUS"),
    *("MAX_OUT_LEN", "MAX_SEQ_LEN", "TEMPERATURE", "TOP_P"),
}
SHOWS_ITSELF = ("params ask", "params filter", "params show")  # answered from the engine's sources


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """Cells of a section's table, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[1:]]


def shown_commands() -> list[Any]:
    """Every `tuneloop …` of the right column."""
    found = dict.fromkeys(span for row in rows("Commands") for span in re.findall(r"`(tuneloop[^`]*)`", row[1]))
    return [pytest.param(line, id=line[:60]) for line in found]


def call(words: list[str]) -> Result:
    """The command line in this process."""
    return CliRunner().invoke(cli, words)


@pytest.mark.parametrize("line", shown_commands())
def test_commands_are_there(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("tasks.json", "scenarios.json"):
        (tmp_path / name).write_text("{}")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody answers: sizes stay unknown
    program, *words = shlex.split(line)
    if program == "tuneloop-mcp":
        with mcp_server.make_context("tuneloop-mcp", words) as ctx:
            assert (ctx.params["name"], ctx.params["http"]) == ("params", True)
        return
    name, *rest = expand_help(words)
    if name in ("run", "llm_finetune", "llm-finetune") and rest:
        result = call([name, *rest, "--dry-run"])
        assert result.exit_code == 0, result.output
        assert "plan (nothing is downloaded or run)" in result.stdout
        return
    with click.Context(cli, token_normalize_func=cli.context_settings["token_normalize_func"]) as ctx:
        parse(cli, ctx, [name, *rest])


def parse(group: click.Group, context: click.Context, words: list[str]) -> None:
    """Take a command's words as click does, down to the last command; nothing is run."""
    name, command, rest = group.resolve_command(context, words)
    assert name is not None and command is not None, words
    inner = command.make_context(name, rest, parent=context)
    if isinstance(command, click.Group):
        parse(command, inner, [*inner._protected_args, *inner.args])


@pytest.mark.parametrize("block", re.findall(r"```env\n(.*?)```", section("Settings, as written there"), re.DOTALL))
def test_settings_load_as_they_are(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FT_FILE_PATH")
    file = tmp_path / ".env"
    file.write_text(block)
    settings = load_settings(file)
    known = {str(field.alias).upper(): name for name, field in Settings.model_fields.items()}
    described = {name for row in rows("Variables") for name in re.findall(r"`(\w+)`", row[0])}
    for name, value in re.findall(r"^(\w+)=(.*)$", block, re.MULTILINE):
        assert name in described, f"{name} is not in the table of variables"
        assert name.upper() in known.keys() | OF_EVAL | FOREIGN_KEYS, f"{name} is unknown"
        if name.upper() in known:
            assert _plain(getattr(settings, known[name.upper()])) == _plain(_meant(value)), name
    notes = dotenv_notes(file) + settings_notes(settings)
    assert ("BACKEND" in block) == any("EMBEDDING_MODEL" in note for note in notes), notes
    assert ("FT_UPDATE_LLAMA_FACTORY=True" in block) == any("FT_UPDATE_LLAMA_FACTORY" in note for note in notes)
    assert ("CUSTOM_PROMPT" in block) == any("CUSTOM_PROMPT" in note for note in notes)
    assert not any("is no setting" in note for note in notes), notes


def _meant(value: str) -> Any:
    """What a line of `.env` says."""
    text = value.strip("'")
    if text.startswith("["):
        return tuple(json.loads(text))
    if text.startswith('"'):
        return text.strip('"').replace("\\\\", "\\")
    return text


def _plain(value: Any) -> Any:
    """Numbers, switches and secrets as the text they are written as."""
    if hasattr(value, "get_secret_value"):
        return value.get_secret_value()
    if isinstance(value, tuple):
        return ",".join(value)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        return float(text)
    except ValueError:
        return text.lower() if text.lower() in ("true", "false") else text


@pytest.mark.parametrize(("name", "there", "here", "reason"), rows("Defaults"))
def test_defaults_are_told(name: str, there: str, here: str, reason: str, tmp_path: Path) -> None:
    field = next(f for f in Settings.model_fields.values() if f"`{f.alias}`" == name)
    default = field.get_default(call_default_factory=True)
    assert _plain("-" if default is None else default) == _plain(here.strip("`"))
    assert (there == here) == (reason == ""), f"{name}: {there} against {here} wants a reason where they differ"


def test_registered_names_are_registered() -> None:
    text = section("Names of benchmarks and data sets")
    names = set(re.findall(r"`([A-Za-z0-9_]+)`", text)) - {"dataset_map"}
    assert len(names) > 15
    known = {*resolve.registered_names(), *datasets.registered_datasets()}
    assert names <= known, names - known
    assert call(["run", "--benchmark", "opencompass:", "--dry-run"]).exit_code == 2


def test_files_are_there() -> None:
    """Every path of the project in the right column."""
    for _, here in rows("Files"):
        for name in re.findall(r"`((?:graph|tools|engines|mcp_servers|cli)/[\w/.]*)`", here):
            assert (ROOT / name).exists(), name


@pytest.mark.slow
def test_questions_are_answered(monkeypatch: pytest.MonkeyPatch, llamafactory: object) -> None:
    """Those to the parameter server, by the engine that is built."""
    monkeypatch.setenv("FT_FILE_PATH", str(SHARED_HOME))
    asked = [
        p.values[0]
        for p in shown_commands()
        if str(p.values[0]).startswith(tuple(f"tuneloop {s}" for s in SHOWS_ITSELF))
    ]
    assert len(asked) >= 5
    for line in asked:
        result = call(shlex.split(str(line))[1:])
        assert result.exit_code == 0, (line, result.output)
        assert "lora" in result.stdout.lower() or "flash_attn" in result.stdout, line
