"""A row for each run of a team: who works on what, and the best so far; migrated by Alembic."""

from __future__ import annotations

import contextlib
import getpass
import math
import os
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import tuneloop
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import digest
from tuneloop.core.frozen import Frozen
from tuneloop.core.layout import RunFolder
from tuneloop.tools.postgres import CONNECT_SECONDS, error_line, load_driver, public_address
from tuneloop.tools.runs.journal import baseline_score, load_journal
from tuneloop.tools.runs.manifest import base_model_of, created_at, read_spec

VARIABLE = "TUNELOOP_TEAM_URL"
TABLE, VERSIONS = "tuneloop_runs", "tuneloop_version"
HEAD = "0001"  # the newest file in `migrations/versions/`
MIGRATIONS = Path(__file__).parent / "migrations"
MODULES = ("alembic", "sqlalchemy")
# Any number that nobody else uses: two that migrate at once do it once.
MIGRATION_LOCK = 7_136_905_222
ANSWER = "10s"
LONGEST, MOST = 2000, 1000
TIMES = ("started", "changed")  # read as text: a database has times that Python has not

TeamState = Literal["new", "running", "paused", "finished"]


class TeamRow(Frozen):
    """A run as its team sees it; scores are of validation, 0-100. `claim`: the report's first line, once the test was opened."""

    key: str
    run: str
    user_name: str
    host: str
    home: str
    benchmark: str
    base_model: str
    state: TeamState
    experiments: int
    baseline: float | None
    best: float | None
    claim: str
    started: datetime
    changed: datetime


def team_row(run: RunFolder, state: TeamState, claim: str = "") -> TeamRow:
    """The run as its folder tells. Raises InvalidRequestError for one that cannot be read."""
    spec, journal, baseline, begun = read_spec(run), load_journal(run), baseline_score(run), created_at(run)
    best = journal.best.score if journal.best else None
    return TeamRow(
        key=digest(run.id, begun),
        run=run.id,
        user_name=user_name(),
        host=socket.gethostname(),
        home=str(run.root.parents[1]),
        benchmark=spec.benchmark,
        base_model=base_model_of(run, spec),
        state=state,
        experiments=len(journal.experiments),
        baseline=baseline.value if baseline else None,
        best=best.value if best else None,
        claim=claim,
        started=datetime.fromisoformat(begun),
        changed=datetime.now(UTC),
    )


def user_name() -> str:
    """Who runs this process; in a container without users, the number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def check_team_url(url: str | None) -> None:
    """Before anything costs. Raises InvalidRequestError for an address of another kind, and where the extra is missing."""
    if url:
        load_driver(url, VARIABLE, *MODULES)
        public_address(url, VARIABLE)


def save_row(url: str, row: TeamRow) -> None:
    """Put it into the table, over the run's older one. Raises as `open_index`."""
    given = {name: storable(value) for name, value in row}
    names = ", ".join(given)
    places = ", ".join(f"%({name})s" for name in given)
    newer = ", ".join(f"{name} = excluded.{name}" for name in given if name != "key")
    sql = f"INSERT INTO {TABLE} AS old ({names}) VALUES ({places}) ON CONFLICT (key) DO UPDATE SET {newer}"  # noqa: S608
    with open_index(url) as connection:
        connection.execute(f"{sql} WHERE old.changed <= excluded.changed", given)


def storable(value: Any) -> Any:
    """Text that a database takes."""
    if isinstance(value, str):
        return value.replace("\0", "�").encode("utf-8", "replace").decode()[:LONGEST]
    return value


def read_rows(url: str) -> list[dict[str, Any]]:
    """Runs of the team as plain values, those that changed last first, `MOST` of them. Raises as `open_index`."""
    from psycopg.rows import dict_row

    names = ", ".join(read_column(name) for name in TeamRow.model_fields if name != "key")
    with open_index(url) as connection, connection.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(f"SELECT {names} FROM {TABLE} ORDER BY {TABLE}.changed DESC LIMIT {MOST}").fetchall()  # noqa: S608
    return [{name: readable(value) for name, value in row.items()} for row in found]


def read_column(name: str) -> str:
    """How a column is read: numbers as they are, text cut, whoever wrote it."""
    if TeamRow.model_fields[name].annotation in (int, float | None):
        return name
    return f"{name}::text" if name in TIMES else f"left({name}::text, {LONGEST}) AS {name}"


def readable(value: Any) -> Any:
    """What another client may have written that JSON does not take: None."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextlib.contextmanager
def open_index(url: str) -> Iterator[Any]:
    """A connection to the index, whose tables are made or migrated first.

    Raises InvalidRequestError for a wrong address and for an index that a newer tuneloop made, InfrastructureError when the
    server does not answer or refuses.
    """
    psycopg = load_driver(url, VARIABLE, *MODULES)
    where = public_address(url, VARIABLE)
    try:
        with psycopg.connect(url, connect_timeout=CONNECT_SECONDS, autocommit=True) as connection:
            connection.execute(f"SET statement_timeout = '{ANSWER}'; SET timezone = 'UTC'")
            if version_of(connection) != HEAD:
                migrate(lambda: psycopg.connect(url, connect_timeout=CONNECT_SECONDS), where)
            yield connection
    except psycopg.Error as e:
        raise InfrastructureError(f"{VARIABLE}: {where} cannot be used: {error_line(e)}") from e


def version_of(connection: Any) -> str | None:
    """The version of the tables; None: there are none."""
    if connection.execute("SELECT to_regclass(%s)", (VERSIONS,)).fetchone()[0] is None:
        return None
    found = connection.execute(f"SELECT version_num FROM {VERSIONS}").fetchone()  # noqa: S608
    return found[0] if found else None


def migrate(connect: Callable[[], Any], where: str) -> None:
    """Bring the tables to this release's version; whoever comes second finds it done. Raises InvalidRequestError."""
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from sqlalchemy import create_engine, text
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.pool import NullPool

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    known = {revision.revision for revision in ScriptDirectory.from_config(config).walk_revisions()}
    try:
        with create_engine("postgresql+psycopg://", creator=connect, poolclass=NullPool).begin() as bound:
            bound.execute(text(f"SET LOCAL statement_timeout = '{ANSWER}'"))
            bound.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))
            have = MigrationContext.configure(bound, opts={"version_table": VERSIONS}).get_current_revision()
            if have is not None and have not in known:
                raise InvalidRequestError(
                    f"{VARIABLE}: the index on {where} was made by a newer tuneloop; this is {tuneloop.__version__}: upgrade"
                )
            config.attributes["connection"] = bound
            command.upgrade(config, HEAD)
    except SQLAlchemyError as e:
        raise InfrastructureError(f"{VARIABLE}: {where} cannot be used: {error_line(e)}") from e
