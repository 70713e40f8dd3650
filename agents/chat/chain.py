"""One request of an agent to the models of its chain, until one answers: recorded calls, retries, dialects."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from langchain_core.language_models import BaseChatModel

from tuneloop.agents.chat.live_events import LiveEvents
from tuneloop.agents.chat.models import ChatRequest, estimate_tokens, make_client, send_request
from tuneloop.agents.chat.planner_context import ModelFacts, ModelMemory
from tuneloop.agents.chat.provider_errors import NoModelAnsweredError, ProviderFailure, classify, may_have_cost
from tuneloop.agents.chat.recorder import TranscriptRecorder, with_call_ids
from tuneloop.agents.chat.tool_calling import Card, name_of, next_dialect
from tuneloop.core.errors import InfrastructureError, InvalidRequestError, RecipeError
from tuneloop.core.prices import find_price
from tuneloop.core.redaction import SecretRedactor
from tuneloop.core.settings import Settings
from tuneloop.core.transcript import CallLedger, Message, ModelCall, Tokens, request_hash

# One call to one model: sent, booked, cleaned of secrets and written down, whatever becomes of it.

# Tokens set aside for an answer: models that think aloud say much, and none is told a maximum.
ANSWER = 8192


@dataclass(frozen=True)
class ModelCaller:
    """What every call behind one answer of one agent shares."""

    agent: str
    settings: Settings
    secrets: SecretRedactor
    transcript: TranscriptRecorder
    book: CallLedger
    live: LiveEvents

    async def call_model(
        self, model: str, known: ModelFacts, request: ChatRequest, name: str
    ) -> tuple[ModelCall, ProviderFailure | None]:
        """The call, and what went wrong."""
        client = self._client(model, known)
        into = estimate_tokens(request.messages, request.tools)
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
            said, used = await send_request(client, request, self.live.listener(model))
            reply = self._clean_reply(said, name)
        except asyncio.CancelledError:
            used, found = aside, ProviderFailure("again", "interrupted")
            over()
            raise
        except Exception as e:  # noqa: BLE001 - every provider's client fails with classes of its own
            found = self._redact_failure(classify(e))
            used = aside if used == Tokens() and may_have_cost(e) else used
        call = over()
        self.transcript.write(call)
        if found is None:
            self.live.model_called(call)
        return call, found

    def _redact_failure(self, found: ProviderFailure) -> ProviderFailure:
        """Providers repeat what they were sent, keys too."""
        return replace(found, text=self.secrets.blot(found.text))

    def _client(self, model: str, known: ModelFacts) -> BaseChatModel:
        try:
            return make_client(model, self.settings, known.without)
        except InvalidRequestError as e:
            raise InfrastructureError(str(e)) from e

    def _clean_reply(self, reply: Message, name: str) -> Message:
        """Without secrets, and with a name for every directive."""
        clean = Message.model_validate(self.secrets.blot(reply.model_dump(mode="json")))
        return clean.model_copy(update={"asks": with_call_ids(clean.asks, int(name[:6], 16))})

    def _cost(self, model: str, used: Tokens) -> float | None:
        """USD; None: nobody knows what the model costs."""
        price = find_price(model, self.settings.api_prices)
        return None if price is None else price.cost(used.into, used.out, used.cached)


TRIES = 5
LONGEST_WAIT = 120.0
# A model that says so much instead of calling a tool has something else in mind than tools it can't see.
WORDS = 8000


class _ModelGivenUpError(Exception):
    """The model does not answer now."""


@dataclass
class ModelChain:
    """For one answer of one agent; a model that was left is not asked again for it."""

    caller: ModelCaller
    models: tuple[str, ...]
    memory: ModelMemory
    first_wait: float
    spent: int = 0
    used: str = ""
    _models_left: set[str] = field(default_factory=set)

    async def ask(self, messages: Sequence[Message], tools: Sequence[Card], answer: str) -> Message:
        """The reply, recorded or new. Raises NobodyAnswersError, RecipeError, InfrastructureError."""
        name = request_hash(messages, [name_of(card) for card in tools])
        known = self.caller.transcript.call(name)
        if known is not None and known.reply is not None:
            return self._count_call(known)
        if not self.caller.transcript.live:
            raise self._replayed(known, name)
        reasons: list[str] = []
        order = self._in_order()
        if order and order[0] != self.models[0] and not self._models_left:
            self.caller.live.fallback(self.models[0], order[0], "it failed a moment ago")
        for model in order:
            try:
                return self._count_call(await self._ask_model(model, name, messages, tools, answer))
            except _ModelGivenUpError as e:
                reasons.append(f"{model}: {e}")
                self._leave(model, str(e))
        raise NoModelAnsweredError("; ".join(reasons) or "every model failed before")

    def _replayed(self, known: ModelCall | None, name: str) -> Exception:
        """What came of a request that got no reply, when it is only replayed."""
        if known is None:
            return NoModelAnsweredError(f"request {name} is not recorded")
        return self._hopeless_reason(known.error, known.meaning) or NoModelAnsweredError(known.error)

    def _count_call(self, call: ModelCall) -> Message:
        assert call.reply is not None
        self.spent += self.caller.transcript.spent(call.request)
        self.used = call.model
        return call.reply

    def _in_order(self) -> list[str]:
        """Those not left yet; one that failed a moment ago comes last."""
        there = [model for model in self.models if model not in self._models_left]
        return sorted(there, key=lambda model: self.memory.of(model).recently_failed)

    def _leave(self, model: str, reason: str) -> None:
        self._models_left.add(model)
        self.memory.learn(model, self.memory.of(model).model_copy(update={"down": time.time()}))
        following = self._in_order()
        self.caller.live.fallback(model, following[0] if following else "offline", reason)

    async def _ask_model(
        self, model: str, name: str, messages: Sequence[Message], tools: Sequence[Card], answer: str
    ) -> ModelCall:
        """One model, as often and in as many ways as makes sense."""
        known, wait, tries = self.memory.of(model), self.first_wait, 0
        while True:
            request = ChatRequest(
                messages, tools, answer, known.dialect, self.caller.settings.chat_timeout,
                self.caller.settings.chat_stream and "stream" not in known.without, self._tokens_left(),
            )  # fmt: skip
            call, found = await self.caller.call_model(model, known, request, name)
            if found is None:
                known = self._learn_from(model, known, call)
                if known.dialect == request.dialect:
                    return call
                continue
            tries += 1
            known, again = self._next_attempt(model, known, found)
            if again:
                continue
            if found.meaning != "again" or tries >= TRIES or (found.wait or 0) > LONGEST_WAIT:
                raise _ModelGivenUpError(found.text)
            seconds = wait if found.wait is None else found.wait
            self.caller.live.retrying(model, found.text, seconds)
            await asyncio.sleep(seconds)
            wait *= 2

    def _tokens_left(self) -> int:
        """Tokens that the answer may still take."""
        return max(1, self.caller.settings.chat_tokens - self.spent)

    def _next_attempt(self, model: str, known: ModelFacts, found: ProviderFailure) -> tuple[ModelFacts, bool]:
        """How to ask so that the model can answer, and whether that is another way than before.

        Raises RecipeError for what no other way mends, InfrastructureError for what only the user can.
        """
        match found.meaning:
            case "key":
                raise InfrastructureError(
                    f"the provider refuses {model}: {found.text}; correct its name (CHAT_MODEL) or its key (OPENAI_API_KEY)"
                )
            case "long" | "refused":
                raise self._hopeless_reason(found.text, found.meaning) or AssertionError(found.meaning)
            case "shape" if found.drop and found.drop not in known.without:
                return known.model_copy(update={"without": known.without | {found.drop}}), True
            case "shape" if (lower := next_dialect(known.dialect)) is not None:
                return known.model_copy(update={"dialect": lower, "sure": False}), True
        return known, False

    def _hopeless_reason(self, text: str, meaning: str) -> RecipeError | None:
        """What every model would say to this request."""
        said = {"long": "is too long for the model", "refused": "is refused by the provider"}.get(meaning)
        return RecipeError(f"{self.caller.agent}: what it was told {said}: {text}", culprit="planner") if said else None

    def _learn_from(self, model: str, known: ModelFacts, call: ModelCall) -> ModelFacts:
        """After an answer: what worked is kept. Words from a model that never called a tool: it can't see them."""
        reply = call.reply
        assert reply is not None
        if reply.asks:
            known = known.model_copy(update={"sure": True})
        elif known.dialect == "tools" and not known.sure and 0 < len(reply.text.strip()) < WORDS and not reply.refused:
            known = known.model_copy(update={"dialect": "schema"})
        self.memory.learn(model, known.model_copy(update={"down": 0.0}))
        return known
