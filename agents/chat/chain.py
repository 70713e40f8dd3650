"""One request of an agent to the models of its chain, until one answers: recorded calls, retries, dialects."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tuneloop.agents.chat.asking import Request
from tuneloop.agents.chat.call import Caller
from tuneloop.agents.chat.dialects import Card, below, name_of
from tuneloop.agents.chat.failures import Failure, NobodyAnswersError
from tuneloop.agents.chat.memory import Known, Memory
from tuneloop.core.errors import RecipeError, WorldError
from tuneloop.core.model_call import Message, ModelCall, request_hash

TRIES = 5
LONGEST_WAIT = 120.0
# A model that says so much instead of calling a tool has something else in mind than tools it can't see.
WORDS = 8000


class _GivenUpError(Exception):
    """The model does not answer now."""


@dataclass
class Chain:
    """For one answer of one agent; a model that was left is not asked again for it."""

    caller: Caller
    models: tuple[str, ...]
    memory: Memory
    first_wait: float
    spent: int = 0
    used: str = ""
    _left: set[str] = field(default_factory=set)

    async def ask(self, messages: Sequence[Message], tools: Sequence[Card], answer: str) -> Message:
        """The reply, recorded or new. Raises NobodyAnswersError, RecipeError, WorldError."""
        name = request_hash(messages, [name_of(card) for card in tools])
        known = self.caller.transcript.call(name)
        if known is not None and known.reply is not None:
            return self._counted(known)
        if not self.caller.transcript.live:
            raise self._as_before(known, name)
        reasons: list[str] = []
        order = self._in_order()
        if order and order[0] != self.models[0] and not self._left:
            self.caller.live.fell_back(self.models[0], order[0], "it failed a moment ago")
        for model in order:
            try:
                return self._counted(await self._with(model, name, messages, tools, answer))
            except _GivenUpError as e:
                reasons.append(f"{model}: {e}")
                self._leave(model, str(e))
        raise NobodyAnswersError("; ".join(reasons) or "every model failed before")

    def _as_before(self, known: ModelCall | None, name: str) -> Exception:
        """What came of a request that got no reply, when it is only replayed."""
        if known is None:
            return NobodyAnswersError(f"request {name} is not recorded")
        return self._hopeless(known.error, known.meaning) or NobodyAnswersError(known.error)

    def _counted(self, call: ModelCall) -> Message:
        assert call.reply is not None
        self.spent += self.caller.transcript.spent(call.request)
        self.used = call.model
        return call.reply

    def _in_order(self) -> list[str]:
        """Those not left yet; one that failed a moment ago comes last."""
        there = [model for model in self.models if model not in self._left]
        return sorted(there, key=lambda model: self.memory.of(model).rests)

    def _leave(self, model: str, reason: str) -> None:
        self._left.add(model)
        self.memory.learn(model, self.memory.of(model).model_copy(update={"down": time.time()}))
        following = self._in_order()
        self.caller.live.fell_back(model, following[0] if following else "offline", reason)

    async def _with(
        self, model: str, name: str, messages: Sequence[Message], tools: Sequence[Card], answer: str
    ) -> ModelCall:
        """One model, as often and in as many ways as makes sense."""
        known, wait, tries = self.memory.of(model), self.first_wait, 0
        while True:
            request = Request(
                messages, tools, answer, known.dialect, self.caller.settings.chat_timeout,
                self.caller.settings.chat_stream and "stream" not in known.without, self._room(),
            )  # fmt: skip
            call, found = await self.caller.once(model, known, request, name)
            if found is None:
                known = self._learnt(model, known, call)
                if known.dialect == request.dialect:
                    return call
                continue
            tries += 1
            known, again = self._mended(model, known, found)
            if again:
                continue
            if found.meaning != "again" or tries >= TRIES or (found.wait or 0) > LONGEST_WAIT:
                raise _GivenUpError(found.text)
            seconds = wait if found.wait is None else found.wait
            self.caller.live.waits(model, found.text, seconds)
            await asyncio.sleep(seconds)
            wait *= 2

    def _room(self) -> int:
        """Tokens that the answer may still take."""
        return max(1, self.caller.settings.chat_tokens - self.spent)

    def _mended(self, model: str, known: Known, found: Failure) -> tuple[Known, bool]:
        """How to ask so that the model can answer, and whether that is another way than before.

        Raises RecipeError for what no other way mends, WorldError for what only the user can.
        """
        match found.meaning:
            case "key":
                raise WorldError(
                    f"the provider refuses {model}: {found.text}; correct its name (CHAT_MODEL) or its key (OPENAI_API_KEY)"
                )
            case "long" | "refused":
                raise self._hopeless(found.text, found.meaning) or AssertionError(found.meaning)
            case "shape" if found.drop and found.drop not in known.without:
                return known.model_copy(update={"without": known.without | {found.drop}}), True
            case "shape" if (lower := below(known.dialect)) is not None:
                return known.model_copy(update={"dialect": lower, "sure": False}), True
        return known, False

    def _hopeless(self, text: str, meaning: str) -> RecipeError | None:
        """What every model would say to this request."""
        said = {"long": "is too long for the model", "refused": "is refused by the provider"}.get(meaning)
        return RecipeError(f"{self.caller.agent}: what it was told {said}: {text}", culprit="planner") if said else None

    def _learnt(self, model: str, known: Known, call: ModelCall) -> Known:
        """After an answer: what worked is kept. Words from a model that never called a tool: it can't see them."""
        reply = call.reply
        assert reply is not None
        if reply.asks:
            known = known.model_copy(update={"sure": True})
        elif known.dialect == "tools" and not known.sure and 0 < len(reply.text.strip()) < WORDS and not reply.refused:
            known = known.model_copy(update={"dialect": "schema"})
        self.memory.learn(model, known.model_copy(update={"down": 0.0}))
        return known
