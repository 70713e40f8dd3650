"""Checkpoints of a run: written before the next node starts, in the run's folder (SQLite) or on a Postgres server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_model, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.state_folder import machine_name, named_state_folder
from tuneloop.graph.checkpoints.local import fetch_local, publish_local
from tuneloop.graph.checkpoints.postgres import open_postgres, public_address
from tuneloop.graph.checkpoints.serializer import ChecksumSerializer
from tuneloop.graph.checkpoints.sqlite import open_sqlite

TYPES = (
    ("tuneloop.graph.state", "State"),
    ("tuneloop.graph.state", "NodeFailure"),
    ("tuneloop.core.run_spec", "RunSpec"),
)
IN_THE_RUN = "sqlite"  # other machines' local folders are "sqlite on MACHINE"


def nothing() -> None:
    """There is no other place."""


@dataclass(frozen=True)
class RunCheckpoints:
    """One run's thread in a store; the thread's name is the run's. `lost` says why what was there is not believed."""

    saver: BaseCheckpointSaver[Any]
    thread: str
    lost: str = ""
    publish: Callable[[], None] = nothing

    @property
    def config(self) -> RunnableConfig:
        """What the graph is called with."""
        return {"configurable": {"thread_id": self.thread}}

    def values(self) -> dict[str, Any] | None:
        """The state stored last, as plain values; None: nothing is stored."""
        found = None if self.lost else self.saver.get_tuple(self.config)
        stored = found.checkpoint["channel_values"] if found else {}
        if "stage" not in stored:
            return None
        return {k: v.model_dump(mode="json") if isinstance(v, BaseModel) else v for k, v in stored.items()}

    def forget(self) -> None:
        """Remove everything of this run."""
        self.saver.delete_thread(self.thread)

    def shrink(self) -> None:
        """Keep the newest checkpoint only: nothing else is needed to resume."""
        self.saver.prune([self.thread], strategy="keep_latest")


@contextlib.contextmanager
def open_checkpoints(run: RunFolder, url: str | None) -> Iterator[RunCheckpoints]:
    """The run's checkpoints in the store of `url`, in the run's folder without one; closed at the end.

    What another store holds of the run is not believed any more: work has gone on since. Raises InvalidRequestError when the
    store cannot be opened or holds another run of this name, InfrastructureError when it breaks later.
    """
    serde = ChecksumSerializer(JsonPlusSerializer(allowed_msgpack_modules=list(TYPES)))
    local = None if url else named_state_folder()
    name = public_address(url) if url else f"{IN_THE_RUN} on {machine_name()}" if local else IN_THE_RUN
    used = used_stores(run)
    file = fetch_local(run, local, stale=used[-1:] != [name]) if local else run.checkpoint
    with open_postgres(url, serde) if url else open_sqlite(file, run.id, serde) as (saver, broken):
        opened = RunCheckpoints(saver, run.id, broken or store_change(used, name), partial(publish_local, run, file))
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
