"""Checkpoints of a run: written before the next node starts, in the run's folder (SQLite) or on a Postgres server."""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import check_guards, digest, read_bytes, read_model, write_atomic, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.state_folder import machine_name, named_state_folder
from tuneloop.graph.checkpoints.postgres import VARIABLE, open_postgres
from tuneloop.graph.checkpoints.sqlite import SQLITE_SUFFIXES, open_sqlite
from tuneloop.tools.postgres import public_address

TYPES = (
    ("tuneloop.graph.state", "State"),
    ("tuneloop.graph.state", "NodeFailure"),
    ("tuneloop.core.run_spec", "RunSpec"),
)
CHECKSUM_TAG = "+crc32"
CHECKSUM_SIZE = 4
IN_THE_RUN = "sqlite"  # other machines' local folders are "sqlite on MACHINE"


def nothing() -> None:
    """There is nothing to do."""


@dataclass(frozen=True)
class RunCheckpoints:
    """One run's thread in a store; the thread's name is the run's. `lost` says why what was there is not believed."""

    saver: BaseCheckpointSaver[Any]
    thread: str
    lost: str = ""
    publish: Callable[[], None] = nothing
    guard: Callable[[], None] = nothing

    @property
    def config(self) -> RunnableConfig:
        """What the graph is called with."""
        return {"configurable": {"thread_id": self.thread}}

    def of_experiment(self, number: int) -> RunCheckpoints:
        """The thread of an experiment that has one of its own."""
        return replace(self, thread=f"{self.thread}/{number}")

    def values(self) -> dict[str, Any] | None:
        """The state stored last, as plain values; None: nothing is stored."""
        found = None if self.lost else self.saver.get_tuple(self.config)
        stored = found.checkpoint["channel_values"] if found else {}
        if "stage" not in stored:
            return None
        return {k: v.model_dump(mode="json") if isinstance(v, BaseModel) else v for k, v in stored.items()}

    def forget(self) -> None:
        """Remove everything of this run. Raises FencedError where another machine has it."""
        self.guard()
        self.saver.delete_thread(self.thread)

    def shrink(self) -> None:
        """Keep the newest checkpoint only: nothing else is needed to resume. Raises as `forget`."""
        self.guard()
        self.saver.prune([self.thread], strategy="keep_latest")


@contextlib.contextmanager
def open_checkpoints(run: RunFolder, url: str | None) -> Iterator[RunCheckpoints]:
    """The run's checkpoints in the store of `url`, in the run's folder without one; closed at the end.

    What another store holds of the run is not believed any more: work has gone on since. Raises InvalidRequestError when the
    store cannot be opened or holds another run of this name, InfrastructureError when it breaks later.
    """
    guard = partial(check_guards, run.checkpoint)
    serde = ChecksumSerializer(JsonPlusSerializer(allowed_msgpack_modules=list(TYPES)), guard)
    local = None if url else named_state_folder()
    name = public_address(url, VARIABLE) if url else f"{IN_THE_RUN} on {machine_name()}" if local else IN_THE_RUN
    used = used_stores(run)
    file = fetch_local(run, local, stale=used[-1:] != [name]) if local else run.checkpoint
    with open_postgres(url, serde) if url else open_sqlite(file, run.id, serde) as (saver, broken):
        lost = broken or store_change(used, name)
        opened = RunCheckpoints(saver, run.id, lost, partial(publish_local, run, file), guard)
        if url and name not in used and opened.saver.get_tuple(opened.config) is not None:
            raise InvalidRequestError(
                f"{name} already holds a run {run.id!r}, which is not this one: choose another --run-id"
            )
        if used[-1:] != [name]:
            write_json(run.stores, [*(u for u in used if u != name), name])
        if opened.lost:
            opened.forget()
        try:
            yield opened
        finally:
            opened.publish()


def used_stores(run: RunFolder) -> Sequence[str]:
    """Stores that this run has used, the last one last."""
    if run.stores.is_file():
        return read_model(run.stores, list[str])
    return [IN_THE_RUN] if run.checkpoint.is_file() else []


def store_change(used: Sequence[str], name: str) -> str:
    """Why checkpoints are not believed when the run was in another store last; "" when it was not."""
    if not used or used[-1] == name or (used[-1].startswith(IN_THE_RUN) and name.startswith(IN_THE_RUN)):
        return ""  # the run's folder has a copy; whether it is behind its files is looked at
    return f"the run's checkpoints were in {used[-1]} before"


def fetch_local(run: RunFolder, folder: Path, *, stale: bool) -> Path:
    """The file below `folder`; the run's own copy where there is none, or a `stale` one: the run went on elsewhere."""
    file = folder / "checkpoints" / digest(str(run.root.resolve())) / run.checkpoint.name
    if stale or not file.is_file():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_sqlite(file)
        if run.checkpoint.is_file():
            write_atomic(file, read_bytes(run.checkpoint))
    return file


def publish_local(run: RunFolder, file: Path) -> None:
    """Copy the database to the run's folder, whole or not at all; nothing where it is the run's own."""
    if file == run.checkpoint or not file.is_file():
        return
    check_guards(run.checkpoint)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        data = connection.serialize()  # what is still in the write-ahead log included
    remove_sqlite(run.checkpoint, SQLITE_SUFFIXES[1:])  # a journal of an older file would be taken for this one's
    write_atomic(run.checkpoint, data)


def remove_sqlite(file: Path, suffixes: tuple[str, ...] = SQLITE_SUFFIXES) -> None:
    """Remove the file, or what SQLite keeps beside it."""
    for suffix in suffixes:
        file.with_name(file.name + suffix).unlink(missing_ok=True)


class DamagedError(ValueError):
    """The stored bytes are not the bytes that were written."""


class ChecksumSerializer(SerializerProtocol):
    """Another serializer's bytes and their CRC-32: a flipped bit is noticed. Values without one are refused.

    `before`: called before anything is written.
    """

    def __init__(self, inner: SerializerProtocol, before: Callable[[], None] = nothing) -> None:
        self.inner, self.before = inner, before

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Type and bytes with the checksum."""
        self.before()
        kind, data = self.inner.dumps_typed(obj)
        return kind + CHECKSUM_TAG, data + zlib.crc32(data).to_bytes(CHECKSUM_SIZE, "big")

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value. Raises DamagedError when checksum and bytes differ, or for a type that is never written."""
        kind, raw = data
        if not isinstance(kind, str) or not kind.endswith(CHECKSUM_TAG) or not isinstance(raw, bytes):
            raise DamagedError(f"a stored value of the type {kind!r} is none of ours")
        body, checksum = raw[:-CHECKSUM_SIZE], raw[-CHECKSUM_SIZE:]
        if zlib.crc32(body).to_bytes(CHECKSUM_SIZE, "big") != checksum:
            raise DamagedError(f"a stored {kind.removesuffix(CHECKSUM_TAG)} value does not match its checksum")
        try:
            return self.inner.loads_typed((kind.removesuffix(CHECKSUM_TAG), body))
        except (NotImplementedError, AttributeError, LookupError, TypeError, RecursionError) as e:
            raise DamagedError(f"a stored {kind.removesuffix(CHECKSUM_TAG)} value cannot be read: {e}") from e
