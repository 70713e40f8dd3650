"""One call to one model: sent, booked, cleaned of secrets and written down, whatever becomes of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace

from langchain_core.language_models import BaseChatModel

from tuneloop.agents.chat.asking import Request, estimate, send
from tuneloop.agents.chat.dialects import name_of
from tuneloop.agents.chat.failures import Failure, failure, may_have_cost
from tuneloop.agents.chat.live import Live
from tuneloop.agents.chat.memory import Known
from tuneloop.agents.chat.models import make
from tuneloop.agents.chat.transcript import Transcript, numbered
from tuneloop.core.errors import SetupError, WorldError
from tuneloop.core.model_call import Book, Message, ModelCall, Tokens
from tuneloop.core.prices import price_of
from tuneloop.core.secret import Secrets
from tuneloop.core.settings import Settings

# Tokens set aside for an answer: models that think aloud say much, and none is told a maximum.
ANSWER = 8192


@dataclass(frozen=True)
class Caller:
    """What every call behind one answer of one agent shares."""

    agent: str
    settings: Settings
    secrets: Secrets
    transcript: Transcript
    book: Book
    live: Live

    async def once(self, model: str, known: Known, request: Request, name: str) -> tuple[ModelCall, Failure | None]:
        """The call, and what went wrong."""
        client = self._client(model, known)
        into = estimate(request.messages, request.tools)
        aside = Tokens(into=into, out=min(request.most_tokens, ANSWER), estimated=True)
        booked = self.book.begin(self.agent, model, aside)
        kept, new = self.transcript.new(request.messages)
        began, reply, used, found = time.monotonic(), None, Tokens(), None

        def over() -> ModelCall:
            call = ModelCall(
                request=name,
                model=model,
                dialect=request.dialect,
                kept=kept,
                messages=new,
                tools=tuple(name_of(card) for card in request.tools),
                outcome="failed" if found else "answered",
                reply=reply,
                error=found.text if found else "",
                meaning=found.meaning if found else "",
                tokens=used,
                seconds=round(time.monotonic() - began, 3),
                cost=self._cost(model, used),
            )
            self.book.end(booked, call)
            return call

        try:
            said, used = await send(client, request, self.live.listener(model))
            reply = self._clean(said, name)
        except asyncio.CancelledError:
            used, found = aside, Failure("again", "interrupted")
            over()
            raise
        except Exception as e:  # noqa: BLE001 - every provider's client fails with classes of its own
            found = self._blotted(failure(e))
            used = aside if used == Tokens() and may_have_cost(e) else used
        call = over()
        self.transcript.write(call)
        if found is None:
            self.live.called(call)
        return call, found

    def _blotted(self, found: Failure) -> Failure:
        """Providers repeat what they were sent, keys too."""
        return replace(found, text=self.secrets.blot(found.text))

    def _client(self, model: str, known: Known) -> BaseChatModel:
        try:
            return make(model, self.settings, known.without)
        except SetupError as e:
            raise WorldError(str(e)) from e

    def _clean(self, reply: Message, name: str) -> Message:
        """Without secrets, and with a name for every wish."""
        clean = Message.model_validate(self.secrets.blot(reply.model_dump(mode="json")))
        return clean.model_copy(update={"asks": numbered(clean.asks, int(name[:6], 16))})

    def _cost(self, model: str, used: Tokens) -> float | None:
        """USD; None: nobody knows what the model costs."""
        price = price_of(model, self.settings.api_prices)
        return None if price is None else price.cost(used.into, used.out, used.cached)
