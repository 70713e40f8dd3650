"""The chain as a langchain chat model, so that `create_agent` can be given it; it keeps the agent within its limits."""

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

from tuneloop.agents.chat.brevity import short
from tuneloop.agents.chat.chain import Chain
from tuneloop.agents.chat.compaction import compacted
from tuneloop.agents.chat.dialects import Card, from_langchain, name_of, to_langchain
from tuneloop.agents.chat.toolkit import Toolkit
from tuneloop.core.errors import RecipeError
from tuneloop.core.model_call import Message

LAST = "This is your last step. Call `{answer}` now with the best answer that you have; no other tool is left to you."
# Who has heard that so often and does something else will not answer.
HURRIES = 3
# From this share of the tokens on the agent is asked to answer.
ENOUGH = 0.8


@dataclass
class Talk:
    """One answer's conversation. `answer`: the tool that takes the answer."""

    chain: Chain
    toolkit: Toolkit
    answer: str
    steps: int = 0
    hurried: int = 0

    async def next(self, messages: Sequence[Message], tools: Sequence[Card]) -> Message:
        """The reply to a conversation. Raises RecipeError at the limits."""
        settings, self.steps = self.chain.caller.settings, self.steps + 1
        if self.steps > settings.chat_steps:
            raise self._out(f"{settings.chat_steps} calls of its model (TUNELOOP_CHAT_STEPS)")
        if self.chain.spent >= settings.chat_tokens:
            raise self._out(f"{settings.chat_tokens} tokens (TUNELOOP_CHAT_TOKENS)")
        messages = self._short(messages)
        if not self._hurry():
            return await self.chain.ask(messages, tools, self.answer)
        self.hurried += 1
        if self.hurried > HURRIES:
            raise RecipeError(
                f"{self.chain.caller.agent} gave no answer when nothing else was left to do", culprit="planner"
            )
        told = Message(role="user", content=LAST.format(answer=self.answer))
        return await self.chain.ask(
            [*messages, told], [card for card in tools if name_of(card) == self.answer], self.answer
        )

    def _short(self, messages: Sequence[Message]) -> list[Message]:
        """Old results told shorter may be asked for again."""
        short = compacted(messages)
        if short != list(messages):
            self.toolkit.forget()
        return short

    def _hurry(self) -> bool:
        settings = self.chain.caller.settings
        spent = self.chain.spent >= ENOUGH * settings.chat_tokens
        return spent or self.toolkit.stuck or self.steps == settings.chat_steps

    def _out(self, limit: str) -> RecipeError:
        return RecipeError(f"{self.chain.caller.agent} gave no answer within {limit}", culprit="planner")


class Seat(BaseChatModel):
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
    ) -> Seat:
        """The same with these tools."""
        return self.model_copy(update={"offered": short(map(convert_to_openai_tool, tools))})

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
