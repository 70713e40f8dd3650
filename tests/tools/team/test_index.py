"""The team's table on a real server: made once, kept by runs, of another version refused, shown harmlessly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from tests.postgres_server import needs_postgres, postgres_server
from tests.prepared import prepared, wordproblems
from tuneloop.cli.main import cli
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.events import RunFinished, RunPaused, RunStarted
from tuneloop.core.layout import Home
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.state import State
from tuneloop.graph.telemetry import team
from tuneloop.tools.team.index import HEAD, LONGEST, MIGRATIONS, TeamRow, check_team_url, read_rows, save_row

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SAVE = "import sys; from tuneloop.tools.team.index import TeamRow, save_row\n"
SAVE += "save_row(sys.argv[1], TeamRow.model_validate_json(sys.argv[2]))"


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, list[str]]]:
    with postgres_server() as found:
        yield found


@pytest.fixture
def url(server: tuple[str, list[str]]) -> str:
    """Of an empty database."""
    with psycopg.connect(server[0]) as connection:
        connection.execute("DROP TABLE IF EXISTS tuneloop_runs, tuneloop_version")
    return server[0]


def row(**changed: Any) -> TeamRow:
    plain: dict[str, Any] = {
        "key": "k",
        "run": "r",
        "user_name": "me",
        "host": "h",
        "home": "/home",
        "benchmark": "b",
        "claim": "",
    }
    plain |= {"base_model": "m", "state": "running", "experiments": 1, "baseline": 1.5, "best": None}
    return TeamRow.model_validate({**plain, "started": NOW, "changed": NOW, **changed})


@needs_postgres
def test_newer_row_of_a_run_replaces_the_older_and_never_the_other_way_round(url: str) -> None:
    save_row(url, row())
    save_row(url, row(experiments=2, best=3.0, changed=NOW + timedelta(seconds=1)))
    save_row(url, row(experiments=1))
    save_row(url, row(key="other", run="s", changed=NOW + timedelta(hours=1)))
    assert [(r["run"], r["experiments"], r["best"]) for r in read_rows(url)] == [("s", 1, None), ("r", 2, 3.0)]


@needs_postgres
def test_several_that_migrate_at_once_do_it_once(url: str) -> None:
    given = [row(key=str(number)).model_dump_json() for number in range(4)]
    all_at_once = [subprocess.Popen([sys.executable, "-c", SAVE, url, one]) for one in given]
    assert [process.wait(120) for process in all_at_once] == [0] * 4
    assert len(read_rows(url)) == 4
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT version_num FROM tuneloop_version").fetchall() == [(HEAD,)]


def test_head_is_the_newest_migration() -> None:
    files = sorted(path.name for path in (MIGRATIONS / "versions").glob("*.py"))
    assert files[-1].startswith(f"{HEAD}_")


@needs_postgres
def test_an_index_of_a_newer_release_is_refused_in_one_line(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    save_row(url, row())
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE tuneloop_version SET version_num = '9999'")
    monkeypatch.setenv("TUNELOOP_TEAM_URL", url)
    done = CliRunner().invoke(cli, ["list", "runs", "--team"])
    assert done.exit_code == 2
    assert "made by a newer tuneloop" in done.output
    assert len(done.output.splitlines()) == 1
    assert "secret" not in done.output


@needs_postgres
def test_a_hostile_row_is_shown_harmlessly(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J[red]x[/red]\n\0\ud800"
    save_row(url, row(run=evil, host=evil, claim=evil))
    with psycopg.connect(url) as connection:
        connection.execute(
            "UPDATE tuneloop_runs SET state = %s, started = '-infinity', best = 'NaN'", (evil.replace("\0", "")[:20],)
        )
    monkeypatch.setenv("TUNELOOP_TEAM_URL", url)
    for words in (["list", "runs", "--team"], ["list", "runs", "--team", "--json"]):
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, done.output
        assert not set(done.output) & {"\x1b", "\x07", "\0"}
        assert "[red]x[/red]" in done.output
    assert json.loads(done.output)[0]["user_name"] == "me"


@needs_postgres
def test_a_long_text_of_another_client_is_cut_by_the_server(url: str) -> None:
    save_row(url, row())
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE tuneloop_runs SET claim = repeat('x', 1000000)")
    assert [found["claim"] for found in read_rows(url)] == ["x" * LONGEST]


def context(tmp_path: Path, url: str) -> Context:
    home = Home(tmp_path)
    spec = RunSpec.model_validate({"benchmark": "wordproblems", "base_model": "tiny"})
    run = prepared(home.run("mine"), spec, wordproblems(home), tmp_path)
    return Context(run, Settings(FT_FILE_PATH=tmp_path, TUNELOOP_TEAM_URL=url), State(run_id="mine"))


def started() -> RunStarted:
    return RunStarted(run="mine", benchmark="wordproblems", base_model="tiny", planner="offline", sandbox="process")


@needs_postgres
def test_a_run_keeps_its_row_and_goes_on_without_the_server(
    server: tuple[str, list[str]], url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ctx, user = context(tmp_path, url), "postgres" if os.geteuid() == 0 else None
    sender = team._sender(url)
    control = {"check": True, "stdout": subprocess.DEVNULL, "cwd": "/"}
    seen = []
    for event in (started(), RunPaused(reason="x")):
        ctx.emit(event)
        settle(sender)
        seen.append(read_rows(url)[0])
    subprocess.run([*server[1], "-m", "immediate", "stop"], user=user, **control)  # type: ignore[call-overload]
    for _ in range(2):
        ctx.emit(started())
        settle(sender)
    subprocess.run([*server[1], "start"], user=user, **control)  # type: ignore[call-overload]
    ctx.emit(RunFinished(report="r", says="better by 3 points"))
    settle(sender)
    last = read_rows(url)[0]
    assert [r["state"] for r in (*seen, last)] == ["running", "paused", "finished"]
    assert (last["run"], last["benchmark"], last["claim"]) == ("mine", "wordproblems", "better by 3 points")
    assert sum("team's index is not kept" in line for line in caplog.messages) == 1
    assert "secret" not in caplog.text
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and b"secret@" in file.read_bytes()]


def settle(sender: team.TeamSender) -> None:
    """Wait until everything was tried; `None` would end the thread."""
    sender.waiting.put(row(key="last", run="last", changed=NOW - timedelta(days=9999)))
    while not sender.waiting.empty():
        sender.thread.join(0.02)
    sender.thread.join(0.5)


def test_an_address_that_is_none_is_refused_before_anything_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("mysql://x", "postgresql://h/db?nonsense=1"):
        with pytest.raises(InvalidRequestError, match="TUNELOOP_TEAM_URL"):
            check_team_url(wrong)
    with pytest.raises(InfrastructureError, match="cannot be used"):
        read_rows("postgresql://me:secret@/x?host=/nowhere")
    monkeypatch.setitem(sys.modules, "alembic", None)
    with pytest.raises(InvalidRequestError, match=r"tuneloop\[postgres\]"):
        check_team_url("postgresql://h/db")


@pytest.mark.parametrize("error", [ValueError("bad date"), PermissionError(13, "Permission denied")])
def test_a_run_goes_on_where_its_row_cannot_be_made(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> TeamRow:
        raise error

    monkeypatch.setattr(team, "team_row", fail)
    settings = Settings(FT_FILE_PATH=tmp_path, TUNELOOP_TEAM_URL="postgresql://h/db")
    team.update_team(Home(tmp_path).run("r"), settings)
