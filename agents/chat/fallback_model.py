"""A conversation that grows long is told shorter: what the agent was told stays whole, old results keep their beginning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from tuneloop.agents.chat.chain import ModelChain
from tuneloop.agents.chat.models import estimate_tokens
from tuneloop.agents.chat.tool_calling import Card, from_langchain, name_of, to_langchain
from tuneloop.agents.chat.toolkit import Toolkit, compact_cards
from tuneloop.core.errors import RecipeError
from tuneloop.core.transcript import Message

LONG = 24_000  # tokens of one request
FRESH = 4  # results that stay whole
KEPT = 300  # letters of an older one
SHORTENED = "\n[the rest was left out to save room; call the tool again if you need it]"


def shorten_conversation(messages: Sequence[Message]) -> list[Message]:
    """The same messages while there is room. Calls, their arguments and words of the agent are never shortened."""
    if estimate_tokens(messages) <= LONG:
        return list(messages)
    results = [i for i, message in enumerate(messages) if message.role == "tool"]
    old = set(results[:-FRESH])
    return [_shorten_message(message) if i in old else message for i, message in enumerate(messages)]


def _shorten_message(message: Message) -> Message:
    text = message.text
    if len(text) <= KEPT + len(SHORTENED):
        return message
    return message.model_copy(update={"content": text[:KEPT] + SHORTENED})


# The chain as a langchain chat model, so that `create_agent` can be given it; it keeps the agent within its limits.

LAST = "This is your last step. Call `{answer}` now with the best answer that you have; no other tool is left to you."
# Who has heard that so often and does something else will not answer.
HURRY_LIMIT = 3
# From this share of the tokens on the agent is asked to answer.
FINAL_NOTICE = 0.8


@dataclass
class Conversation:
    """One answer's conversation. `answer`: the tool that takes the answer."""

    chain: ModelChain
    toolkit: Toolkit
    answer: str
    steps: int = 0
    hurried: int = 0

    async def next(self, messages: Sequence[Message], tools: Sequence[Card]) -> Message:
        """The reply to a conversation. Raises RecipeError at the limits."""
        settings, self.steps = self.chain.caller.settings, self.steps + 1
        if self.steps > settings.chat_steps:
            raise self._limit_reached(f"{settings.chat_steps} calls of its model (TUNELOOP_CHAT_STEPS)")
        if self.chain.spent >= settings.chat_tokens:
            raise self._limit_reached(f"{settings.chat_tokens} tokens (TUNELOOP_CHAT_TOKENS)")
        messages = self._shortened(messages)
        if not self._set_last_turn():
            return await self.chain.ask(messages, tools, self.answer)
        self.hurried += 1
        if self.hurried > HURRY_LIMIT:
            raise RecipeError(
                f"{self.chain.caller.agent} gave no answer when nothing else was left to do", culprit="planner"
            )
        told = Message(role="user", content=LAST.format(answer=self.answer))
        return await self.chain.ask(
            [*messages, told], [card for card in tools if name_of(card) == self.answer], self.answer
        )

    def _shortened(self, messages: Sequence[Message]) -> list[Message]:
        """Old results told shorter may be asked for again."""
        short = shorten_conversation(messages)
        if short != list(messages):
            self.toolkit.forget()
        return short

    def _set_last_turn(self) -> bool:
        settings = self.chain.caller.settings
        spent = self.chain.spent >= FINAL_NOTICE * settings.chat_tokens
        return spent or self.toolkit.is_stuck or self.steps == settings.chat_steps

    def _limit_reached(self, limit: str) -> RecipeError:
        return RecipeError(f"{self.chain.caller.agent} gave no answer within {limit}", culprit="planner")


class FallbackModel(BaseChatModel):
    """Asynchronous only: tools are."""

    talk: Any
    offered: tuple[Card, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "tuneloop"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,  # noqa: ARG002 - not every provider can be forced; who doesn't answer is asked again
        **_: Any,
    ) -> FallbackModel:
        """The same with these tools."""
        return self.model_copy(update={"offered": compact_cards(map(convert_to_openai_tool, tools))})

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise NotImplementedError("an agent is asked asynchronously: its tools are")

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **_: Any,
    ) -> ChatResult:
        reply = await self.talk.next([from_langchain(m) for m in messages], self.offered)  # type: ignore[arg-type]
        return ChatResult(generations=[ChatGeneration(message=to_langchain(reply))])
