"""A job's door on the inside: who may knock, what was used, and how each request is answered."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from tuneloop.tools.proxy.access import Access
from tuneloop.tools.proxy.account import Account, Amount, amount
from tuneloop.tools.proxy.answering import Keep, Ticket, forget, streamed, whole
from tuneloop.tools.proxy.answers import Answer, Answers, key_of
from tuneloop.tools.proxy.asked import Asked, read_asked
from tuneloop.tools.proxy.events import Usage
from tuneloop.tools.proxy.ledger import Entry, Ledger, experiment_of, new_id, now, read_ledger
from tuneloop.tools.proxy.refusal import Refused
from tuneloop.tools.proxy.room import Room
from tuneloop.tools.proxy.upstream import Provider, Unanswered
from tuneloop.tools.proxy.wire import Gone, Request, Wire

MODELS, ALLOWANCE = "/v1/models", "/v1/allowance"
MOST_WAITING = 1024  # connections of one job, those that wait for their turn among them
MOST_HELD = 32 << 20  # bytes of requests of one job in memory
MOST_REFUSALS = 1000  # of one job that the ledger notes: an endless loop shall not fill the disk
KEPT = [("x-tuneloop-kept", "true")]  # says of an answer that it was paid for before
OURS = Refused(500, "internal", "the model proxy made a mistake; its log knows more", 1)


class Door:
    """One job's."""

    def __init__(self, name: str, token: str, access: Access, run: Account, ledger: Ledger) -> None:
        self.name, self.token, self.access = name, token, access
        self.account = Account("this job", access.job)
        for entry in read_ledger(ledger.path):
            self.account.spent += amount(entry) if entry.job == name else Amount()
        self.last = time.time()
        self._run, self._ledger, self._room = run, ledger, Room(MOST_HELD)
        self._turns, self._inside, self._refusals = asyncio.Semaphore(access.workers), 0, 0

    @property
    def busy(self) -> bool:
        """Whether requests are under way; what they bring is paid for, and kept, though nobody waits for it any more."""
        return self._inside > 0

    async def serve(self, wire: Wire, provider: Provider, answers: Answers) -> None:
        """Answer one connection."""
        self.last = time.time()
        self._inside += 1
        try:
            try:
                if self._inside > MOST_WAITING:
                    raise Refused(
                        429, "too_many_connections", f"at most {MOST_WAITING} connections at the same time", 2
                    )
                async with self._room.part() as take:
                    await self._answer(wire, await wire.read(take), provider, answers)
            except Refused as e:
                if not wire.begun:
                    await wire.answer(e.status, e.body, e.headers)
        except Gone:
            pass
        except Exception:
            if not wire.begun:
                await wire.answer(500, OURS.body, OURS.headers)
            raise
        finally:
            self._inside -= 1
            await wire.close()

    async def _answer(self, wire: Wire, request: Request, provider: Provider, answers: Answers) -> None:
        if not hmac.compare_digest(request.token.encode(), self.token.encode()):
            raise Refused(401, "wrong_token", "the token is not this job's; right is what OPENAI_API_KEY holds")
        if request.path == MODELS and request.method in ("GET", "HEAD"):
            return await wire.answer(200, self._models())
        if request.path == ALLOWANCE and request.method == "GET":
            told = {"job": self.account.told(), "run": self._run.told()}
            return await wire.answer(200, json.dumps(told).encode())
        if request.method != "POST":
            raise Refused(405, "wrong_method", f"right is POST, or GET {MODELS} or {ALLOWANCE}")
        try:
            asked = read_asked(request.path, request.body, self.access.models)
        except Refused as e:
            self._note_refusal(e)
            raise
        if not asked.repeatable:
            return await self._ask(wire, asked, provider, forget)
        key = key_of(provider.base, asked)
        async with answers.turn(key):
            found = await answers.read(key)
            if found is None:
                return await self._ask(wire, asked, provider, partial(answers.write, key))
        return await self._again(wire, asked, found)

    async def _ask(self, wire: Wire, asked: Asked, provider: Provider, keep: Keep) -> None:
        """Wait for a turn, set aside, ask, book; the client has the end of an answer when it is kept and booked."""
        async with self._turns:
            if wire.left:
                raise Gone
            with self._ticket(asked) as ticket:
                try:
                    async with provider.reply(asked) as reply:
                        ticket.settle("killed", 0, tries=reply.tries)
                        if asked.stream:
                            last = await streamed(wire, asked, reply, ticket, keep, self._check_beyond)
                        else:
                            last = await whole(asked, reply, ticket, keep)
                except Unanswered as e:
                    if not e.heard:
                        ticket.use(0, 0, told=True)
                    ticket.settle("failed", e.refused.status, tries=e.tries, code=e.refused.code)
                    raise e.refused from e
                except Refused as e:
                    ticket.settle("failed", e.status, code=e.code)
                    raise
        return await (wire.end(last) if asked.stream else wire.answer(200, last))

    async def _again(self, wire: Wire, asked: Asked, answer: Answer) -> None:
        """What was answered before."""
        ticket = self._new_ticket(asked)
        ticket.use(answer.tokens_in, answer.tokens_out, told=answer.told)
        ticket.settle("cached", 200, cost=0.0)
        self._book(ticket.entry)
        if not asked.stream:
            return await wire.answer(200, answer.body.encode(), KEPT)
        await wire.begin_stream()
        return await wire.end(answer.body.encode())

    def _check_beyond(self, asked: Asked, usage: Usage) -> None:
        """An answer that grows beyond what was set aside for it must fit into what is left. Raises Refused."""
        beyond = usage.tokens_out - asked.expected_out
        if beyond > 0:
            for account in (self.account, self._run):
                account.check(Amount(0, beyond, self.access.cost(asked.model, 0, beyond) or 0.0))

    @contextmanager
    def _ticket(self, asked: Asked) -> Iterator[Ticket]:
        """Set aside what it may take, and book what it took, whatever happens. Raises Refused where it does not fit."""
        ticket = self._new_ticket(asked)
        aside, accounts = amount(ticket.entry), (self.account, self._run)
        try:
            for account in accounts:
                account.check(aside)
            self._ledger.begin(ticket.entry)
        except Refused as e:
            self._note_refusal(e)
            raise
        except OSError as e:
            raise Refused(503, "no_room", "the disk is full, and what cannot be booked is not asked", 10) from e
        for account in accounts:
            account.aside += aside
        try:
            yield ticket
        finally:
            for account in accounts:
                account.aside -= aside
                account.spent += amount(ticket.entry)
            self._book(ticket.entry)

    def _new_ticket(self, asked: Asked) -> Ticket:
        """As it is booked when the proxy is killed before the answer is there."""
        facts: dict[str, Any] = {"id": new_id(), "at": now(), "job": self.name, "model": asked.model}
        facts["endpoint"] = asked.endpoint
        facts |= {"outcome": "killed", "status": 0, "stream": asked.stream, "experiment": experiment_of(self.name)}
        entry = Entry.model_validate(facts)
        ticket = Ticket(entry, partial(self.access.cost, asked.model))
        ticket.use(asked.expected_in, asked.expected_out, told=False)
        return ticket

    def _note_refusal(self, refused: Refused) -> None:
        self._refusals += 1
        if self._refusals <= MOST_REFUSALS:
            facts = {"model": "", "endpoint": "", "outcome": "refused", "status": refused.status, "code": refused.code}
            self._book(Entry.model_validate({"id": new_id(), "at": now(), "job": self.name, **facts}))

    def _book(self, entry: Entry) -> None:
        with suppress(OSError):  # it stands among those begun, and the next proxy books it
            self._ledger.write(entry)

    def _models(self) -> bytes:
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "user"} for name in self.access.models]
        return json.dumps({"object": "list", "data": listed}).encode()
