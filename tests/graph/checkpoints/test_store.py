"""Checkpoints survive, are small, and are not believed when they are damaged or belong to an earlier place."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph

from tests.postgres_server import needs_postgres, postgres_server
from tuneloop.core.errors import FencedError, InfrastructureError, InvalidRequestError
from tuneloop.core.files import GUARDS, read_json
from tuneloop.core.layout import RunFolder
from tuneloop.graph.checkpoints.store import TYPES, ChecksumSerializer, DamagedError, RunCheckpoints, open_checkpoints
from tuneloop.graph.state import NodeFailure, State


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "runs" / "r1")
    folder.root.mkdir(parents=True)
    return folder


def work(store: RunCheckpoints, rounds: int, shrink: int = 40) -> None:
    """A graph of one node that comes back `rounds` times, stored as a run's."""
    graph = StateGraph(State)
    graph.add_node("node", lambda s: {"experiment": s.experiment + 1, "failure": trouble(s.experiment + 1)})
    graph.add_edge(START, "node")
    graph.add_conditional_edges("node", lambda s: END if s.experiment >= rounds else "node", ["node", END])
    given = State(run_id=store.thread, stage="train")
    stream = graph.compile(checkpointer=store.saver).stream(
        State(**given.model_dump()), {**store.config, "recursion_limit": 10**6}, durability="sync"
    )
    for done, _ in enumerate(stream, 1):
        if done % shrink == 0:
            store.shrink()


def trouble(number: int) -> NodeFailure:
    return NodeFailure(node="validate", culprit="config", text="x" * 1000 + str(number))


def stored(run: RunFolder, rounds: int = 3) -> None:
    with open_checkpoints(run, None) as store:
        work(store, rounds)


def test_what_was_stored_comes_back_as_plain_values(run: RunFolder) -> None:
    stored(run)
    with open_checkpoints(run, None) as store:
        values = store.values()
    assert values is not None
    assert (values["stage"], values["experiment"]) == ("train", 3)
    assert values["failure"] == trouble(3).model_dump()
    assert read_json(run.stores) == ["sqlite"]


def test_the_file_stays_small_over_a_thousand_experiments(run: RunFolder) -> None:
    """Eleven nodes an experiment; the newest checkpoint is always there."""
    stored(run, rounds=1500)
    assert sum(f.stat().st_size for f in run.root.glob("checkpoint.sqlite*")) <= 600 * 1024
    with sqlite3.connect(run.checkpoint) as db:
        assert db.execute("select count(*) from checkpoints").fetchone()[0] <= 45
    with open_checkpoints(run, None) as store:
        values = store.values()
        store.shrink()
        assert store.values() == values
    assert values is not None
    assert values["experiment"] == 1500


SERDE = ChecksumSerializer(JsonPlusSerializer(allowed_msgpack_modules=list(TYPES)))


@given(st.integers(0, 10**6), st.integers(0, 7))
def test_any_flipped_bit_is_noticed(place: int, bit: int) -> None:
    kind, data = SERDE.dumps_typed({"failure": trouble(1), "spent": 17.5})
    assert SERDE.loads_typed((kind, data)) == {"failure": trouble(1), "spent": 17.5}
    at = place % len(data)
    flipped = data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]
    with pytest.raises(DamagedError):
        SERDE.loads_typed((kind, flipped))


@pytest.mark.parametrize("seed", range(12))
def test_a_corrupted_page_is_noticed_or_does_no_harm(run: RunFolder, seed: int) -> None:
    """Every page of the file in turn; pages that nothing uses any more may hold anything."""
    stored(run, rounds=6)
    whole = run.checkpoint.read_bytes()
    with open_checkpoints(run, None) as store:
        right = store.values()
    pages, noise = len(whole) // 4096, random.Random(seed)
    for page in range(pages):
        for old in run.root.glob("checkpoint.sqlite*"):
            old.unlink()
        at = page * 4096 + noise.randrange(4096 - 64)
        run.checkpoint.write_bytes(whole[:at] + noise.randbytes(64) + whole[at + 64 :])
        with open_checkpoints(run, None) as store:
            assert store.lost or store.values() == right
            if store.lost:
                assert store.values() is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda f: f.write_bytes(f.read_bytes()[: f.stat().st_size // 2]),
        lambda f: f.write_bytes(f.read_bytes()[:5000]),
        lambda f: f.write_bytes(b"no database at all " * 500),
        lambda f: f.write_bytes(f.read_bytes().replace(b"xxxxxxxx", b"yyyyyyyy")),
    ],
    ids=["half", "head", "noise", "texts"],
)
def test_a_damaged_file_is_moved_aside(run: RunFolder, spoil: Any) -> None:
    stored(run)
    spoil(run.checkpoint)
    with open_checkpoints(run, None) as store:
        assert "damaged" in store.lost
        assert "kept as checkpoint.sqlite.broken-1" in store.lost
        assert store.values() is None
        work(store, 2)
    spoil(run.checkpoint)
    with open_checkpoints(run, None) as store:
        assert "broken-2" in store.lost
    assert (run.root / "checkpoint.sqlite.broken-1").is_file()


def test_an_empty_or_absent_file_holds_nothing(run: RunFolder) -> None:
    stored(run)
    run.checkpoint.write_bytes(b"")
    for _ in range(2):
        with open_checkpoints(run, None) as store:
            assert (store.lost, store.values()) == ("", None)
        run.checkpoint.unlink()


def test_damage_that_shows_later_is_the_worlds_fault(run: RunFolder) -> None:
    stored(run)
    with pytest.raises(InfrastructureError, match=r"checkpoint\.sqlite: "), open_checkpoints(run, None) as store:
        run.checkpoint.write_bytes(os.urandom(run.checkpoint.stat().st_size))
        work(store, 50)


def test_a_read_only_or_locked_file_is_not_taken_for_damaged(run: RunFolder) -> None:
    stored(run)
    blocker = sqlite3.connect(run.checkpoint)
    blocker.execute("pragma locking_mode=exclusive")
    blocker.execute("begin exclusive")
    with pytest.raises(InfrastructureError, match="locked"), open_checkpoints(run, None):
        pass
    blocker.close()
    assert not list(run.root.glob("*.broken-*"))


def test_another_kind_of_address_is_refused_in_one_line(run: RunFolder) -> None:
    with pytest.raises(InvalidRequestError, match="mysql: is not supported"), open_checkpoints(run, "mysql://x"):
        pass
    assert list(run.root.iterdir()) == []


def test_without_the_extra_the_cure_is_named(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InvalidRequestError, match=r"tuneloop\[postgres\]"), open_checkpoints(run, "postgresql://x"):
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, list[str]]]:
    with postgres_server() as found:
        yield found


@needs_postgres
def test_postgres_holds_the_same(run: RunFolder, server: tuple[str, list[str]]) -> None:
    url, _ = server
    with open_checkpoints(run, url) as store:
        work(store, 100)
        store.shrink()
    with open_checkpoints(run, url) as store:
        values = store.values()
    assert values is not None
    assert values["failure"] == trouble(100).model_dump()
    assert not run.checkpoint.exists()
    assert "secret" not in run.stores.read_text()


@needs_postgres
def test_moved_run_ignores_old_checkpoints(run: RunFolder, server: tuple[str, list[str]]) -> None:
    url, _ = server
    home = RunFolder(run.root.parent / "moving")
    home.root.mkdir()
    stored(home)
    with open_checkpoints(home, url) as store:
        assert store.lost == "the run's checkpoints were in sqlite before"
        assert store.values() is None
        work(store, 4)
    with open_checkpoints(home, None) as store:
        assert store.values() is None
        assert "before" in store.lost
    with open_checkpoints(home, url) as store:
        assert store.values() is None, "older than what was done in SQLite since"
        work(store, 5)
    with open_checkpoints(home, url) as store:
        assert store.lost == ""
        values = store.values()
    assert values is not None
    assert values["experiment"] == 5


@needs_postgres
def test_another_run_of_this_name_on_the_server_is_not_touched(
    run: RunFolder, server: tuple[str, list[str]], tmp_path: Path
) -> None:
    url, _ = server
    other = RunFolder(tmp_path / "elsewhere" / "twin")
    mine = RunFolder(tmp_path / "here" / "twin")
    for folder in (other, mine):
        folder.root.mkdir(parents=True)
    with open_checkpoints(other, url) as store:
        work(store, 3)
    with pytest.raises(InvalidRequestError, match="already holds a run 'twin'"), open_checkpoints(mine, url):
        pass
    with open_checkpoints(other, url) as store:
        assert store.values() is not None


@needs_postgres
def test_a_server_that_dies_pauses_the_run(run: RunFolder, server: tuple[str, list[str]]) -> None:
    url, control = server
    user = "postgres" if os.geteuid() == 0 else None
    folder = RunFolder(run.root.parent / "dying")
    folder.root.mkdir()
    with pytest.raises(InfrastructureError, match="checkpoints on postgresql:"), open_checkpoints(folder, url) as store:
        work(store, 2)
        subprocess.run([*control, "-m", "immediate", "stop"], user=user, check=True, stdout=subprocess.DEVNULL, cwd="/")
        work(store, 3)
    with pytest.raises(InvalidRequestError, match="cannot be used") as told, open_checkpoints(folder, url):
        pass
    assert "secret" not in str(told.value)
    assert "\n" not in str(told.value)
    subprocess.run([*control, "start"], user=user, check=True, stdout=subprocess.DEVNULL, cwd="/")
    with open_checkpoints(folder, url) as store:
        values = store.values()
    assert values is not None
    assert values["experiment"] == 2


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("type", "alien"),
        ("type", "alien+crc32"),
        ("type", "pickle+crc32"),
        ("type", "msgpack"),
        ("type", None),
        ("type", b"x"),
        ("checkpoint", None),
        ("checkpoint", "text"),
        ("checkpoint", 7),
    ],
)
def test_a_row_that_is_none_of_ours_is_moved_aside(run: RunFolder, column: str, value: object) -> None:
    stored(run)
    with closing(sqlite3.connect(run.checkpoint)) as connection, connection:
        connection.execute(f"UPDATE checkpoints SET {column} = ?", (value,))
    with open_checkpoints(run, None) as store:
        assert "the checkpoint is damaged" in store.lost
        assert store.values() is None
    assert list(run.root.glob("checkpoint.sqlite.broken-1"))


def test_checkpoints_of_a_run_that_another_machine_took_are_left_alone(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(run)

    def refuse() -> None:
        raise FencedError("another one has it")

    with open_checkpoints(run, None) as store:
        kept = store.values()
        with monkeypatch.context() as patch:
            patch.setitem(GUARDS, run.root, refuse)
            for act in (store.shrink, store.forget):
                with pytest.raises(FencedError):
                    act()
        assert store.values() == kept
