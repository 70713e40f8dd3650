"""What a chat planner is given of a run: places for transcripts, the event log, and the ledger to book calls in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

from tuneloop.agents.chat.planner_context import PlannerContext
from tuneloop.core.events import Event
from tuneloop.core.layout import RunFolder
from tuneloop.core.prices import find_price
from tuneloop.core.settings import Settings
from tuneloop.core.transcript import ModelCall, Tokens
from tuneloop.graph.budget.limits import check_call_fits
from tuneloop.tools.llm_proxy.ledger import Entry, Ledger, new_id, now

ENDPOINT = "agents"


class RunPlace(Protocol):
    """A run in somebody's hand."""

    @property
    def run(self) -> RunFolder:
        """Its folder."""
        ...

    @property
    def settings(self) -> Settings:
        """Those of the machine."""
        ...

    @property
    def number(self) -> int:
        """The open experiment."""
        ...

    @property
    def slot(self) -> int:
        """The experiment of an invocation of its own, beside others; 0: there are no others."""
        ...

    def transcript(self, agent: str) -> Path:
        """Where calls are written."""
        ...

    def emit(self, event: Event) -> None:
        """Append to `events.jsonl`."""
        ...


def make_planner_context(place: RunPlace) -> PlannerContext:
    """For the agents of a run."""
    run, who = place.run, f"experiment-{place.slot}-" if place.slot else ""
    ledger = open_ledger(run, place.settings, place.number, who)
    return PlannerContext(place.settings, place.transcript, run.models, place.emit, ledger)


BOOKING = threading.Lock()  # agents of several experiments may ask at once, and see each other's reservations


class RunCallLedger:
    """A line in the run's `ledger.jsonl` per call; what was under way when the process died is booked by the next one.

    `allow` raises LimitReachedError for a call that does not fit into what the run may spend.
    """

    def __init__(self, ledger: Ledger, settings: Settings, experiment: int, allow: Callable[[Entry], None]) -> None:
        self._ledger, self._settings, self._experiment, self._allow = ledger, settings, experiment, allow
        self._begun: dict[str, Entry] = {}

    def begin(self, agent: str, model: str, tokens: Tokens) -> str:
        """Note it as killed, which it is unless `end` comes."""
        price = find_price(model, self._settings.api_prices)
        entry = Entry(
            id=new_id(), at=now(), job=f"agent:{agent}", model=model, endpoint=ENDPOINT, outcome="killed", status=0,
            tokens_in=tokens.into, tokens_out=tokens.out, estimated=True, tries=1, experiment=self._experiment,
            cost=price and price.cost(tokens.into, tokens.out),
        )  # fmt: skip
        with BOOKING:
            self._allow(entry)
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
            "tokens_cached": call.tokens.cached,
            "estimated": call.tokens.estimated,
            "cost": call.cost,
            "seconds": call.seconds,
            "code": call.meaning,
        }
        self._ledger.write(self._begun.pop(name).model_copy(update=over))


def open_ledger(
    run: RunFolder, settings: Settings, experiment: int = 0, who: str = ""
) -> Callable[[], AbstractContextManager[RunCallLedger]]:
    """Opens the run's ledger while an answer is found; `who` thinks beside the agents and notes its calls apart."""

    @contextmanager
    def book() -> Iterator[RunCallLedger]:
        with closing(Ledger(run.ledger, run.calls_begun(who))) as ledger:
            yield RunCallLedger(ledger, settings, experiment, partial(check_call_fits, run))

    return book
