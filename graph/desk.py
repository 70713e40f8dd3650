"""What a chat planner is given of a run: places for transcripts, the event log, and the ledger to book calls in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Protocol

from tuneloop.agents.chat.desk import Desk
from tuneloop.core.events import Event
from tuneloop.core.layout import RunFolder
from tuneloop.core.model_call import ModelCall, Tokens
from tuneloop.core.settings import Settings
from tuneloop.tools.proxy.ledger import Entry, Ledger, new_id, now

ENDPOINT = "agents"


class Place(Protocol):
    """A run in somebody's hand."""

    @property
    def run(self) -> RunFolder:
        """Its folder."""
        ...

    @property
    def settings(self) -> Settings:
        """Those of the machine."""
        ...

    def transcript(self, agent: str) -> Path:
        """Where calls are written."""
        ...

    def emit(self, event: Event) -> None:
        """Append to `events.jsonl`."""
        ...


def desk(place: Place) -> Desk:
    """For the agents of a run."""
    run = place.run
    return Desk(place.settings, place.transcript, run.models, place.emit, opened(run))


class LedgerBook:
    """A line in the run's `ledger.jsonl` per call; what was under way when the process died is booked by the next one."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._begun: dict[str, Entry] = {}

    def begin(self, agent: str, model: str, tokens: Tokens) -> str:
        """Note it as killed, which it is unless `end` comes."""
        entry = Entry(
            id=new_id(), at=now(), job=f"agent:{agent}", model=model, endpoint=ENDPOINT, outcome="killed", status=0,
            tokens_in=tokens.into, tokens_out=tokens.out, estimated=True, tries=1,
        )  # fmt: skip
        self._ledger.begin(entry)
        self._begun[entry.id] = entry
        return entry.id

    def end(self, name: str, call: ModelCall) -> None:
        """Book what it took."""
        over = {
            "outcome": call.outcome,
            "status": 200 if call.outcome == "answered" else 0,
            "tokens_in": call.tokens.into,
            "tokens_out": call.tokens.out,
            "estimated": call.tokens.estimated,
            "cost": call.cost,
            "seconds": call.seconds,
            "code": call.meaning,
        }
        self._ledger.write(self._begun.pop(name).model_copy(update=over))


def opened(run: RunFolder, who: str = "") -> Callable[[], AbstractContextManager[LedgerBook]]:
    """Opens the run's ledger while an answer is found; `who` thinks beside the agents and notes its calls apart."""

    @contextmanager
    def book() -> Iterator[LedgerBook]:
        with closing(Ledger(run.ledger, run.root / f"{who}calls_begun.jsonl")) as ledger:
            yield LedgerBook(ledger)

    return book
