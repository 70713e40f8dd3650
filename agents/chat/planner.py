"""The planner that asks chat models; what they can't answer, the offline policy does, and it is said."""

from __future__ import annotations

import asyncio
import contextvars
from dataclasses import dataclass
from typing import Any, TypeVar

from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import HumanMessage
from pydantic import BaseModel, ValidationError

from tuneloop.agents.chat.chain import ModelCaller, ModelChain
from tuneloop.agents.chat.fallback_model import Conversation, FallbackModel
from tuneloop.agents.chat.live_events import LiveEvents
from tuneloop.agents.chat.models import model_chain
from tuneloop.agents.chat.planner_context import ModelMemory, PlannerContext
from tuneloop.agents.chat.provider_errors import NoModelAnsweredError
from tuneloop.agents.chat.recorder import TranscriptRecorder
from tuneloop.agents.chat.tool_calling import BROKEN_ARGUMENTS
from tuneloop.agents.chat.toolkit import RecordedToolbox, Toolkit
from tuneloop.agents.policy import OfflinePolicy
from tuneloop.core.brief import Brief
from tuneloop.core.errors import LimitReachedError, RecipeError
from tuneloop.core.files import digest
from tuneloop.core.protocols import Toolbox
from tuneloop.core.redaction import collect_secrets
from tuneloop.core.transcript import CallLedger, TranscriptEnded, TranscriptStarted

Answer = TypeVar("Answer", bound=BaseModel)
BORDER = "\n---\n"
OFFLINE = "offline"
# What every agent is told, first of all: not every provider can be made to force a tool.
HOW = "Use your tools as you need them, then call `{answer}`: its arguments are your answer. Words alone are none."
NOT_YET = "That is no usable answer: {why}\nCall `{answer}` with an answer that is."


def split_prompt(prompt: str) -> tuple[str, str]:
    """What stays the same from answer to answer, before the line `---`, and what this answer is about."""
    stable, border, now = prompt.partition(BORDER)
    return (stable, now) if border else ("", prompt)


@dataclass
class AnswerRepairs:
    """Allows one repair of an answer that can't be used."""

    agent: str
    answer: str
    repairs: int = 0

    def repair(self, why: str) -> str:
        """What the agent is told. Raises RecipeError the second time."""
        self.repairs += 1
        if self.repairs > 1:
            raise RecipeError(f"{self.agent} gave no usable answer, asked twice: {why[:1000]}", culprit="planner")
        return NOT_YET.format(why=why[:2000], answer=self.answer)

    def invalid(self, e: Exception) -> str:
        """Of an answer that breaks its schema."""
        source = getattr(e, "source", e)
        cause = source.__cause__ if isinstance(getattr(source, "__cause__", None), ValidationError) else source
        if isinstance(cause, ValidationError):
            found = cause.errors(include_url=False, include_context=False)
            if any(f["loc"] == (BROKEN_ARGUMENTS,) for f in found):
                return self.repair("its arguments were no JSON object, or they were cut off")
            return self.repair("; ".join(f"{'.'.join(map(str, f['loc'])) or 'answer'}: {f['msg']}" for f in found[:10]))
        return self.repair(" ".join(str(source).split()))


class ChatPlanner:
    """A Planner. Every answer has a transcript, from which it goes on after an interruption and is replayed."""

    def __init__(self, context: PlannerContext, *, live: bool = True) -> None:
        self._context, self._live = context, live
        self._secrets = collect_secrets(context.settings)
        self.name = f"chat {context.settings.chat_model}"

    async def answer(self, agent: str, prompt: str, brief: Brief, tools: Toolbox | None, want: type[Answer]) -> Answer:
        """The agent's answer. Raises RecipeError when none that is usable was found, InfrastructureError for a wrong key."""
        transcript = TranscriptRecorder(self._context.transcript(agent), self._secrets, live=self._live)
        if self._live and transcript.ended is not None:
            return _recorded_answer(transcript.ended, want)
        recorded = RecordedToolbox(tools, transcript, self._secrets)
        live = LiveEvents(agent, brief.experiment, self._context.tell, self._secrets)
        if self._live:
            offered = tuple(await recorded.names())
            transcript.begin(self._announce(agent, prompt, brief, offered, want))
        try:
            found, by = await self._find_answer(agent, prompt, brief, recorded, transcript, live, want)
        except LimitReachedError:  # no answer: with more to spend it is found where it was left
            raise
        except RecipeError as e:
            transcript.write(TranscriptEnded(by=self.name, error=str(e)))
            raise
        transcript.write(TranscriptEnded(by=by, answer=found.model_dump(mode="json")))
        return found

    async def _find_answer(
        self, agent: str, prompt: str, brief: Brief, tools: Toolbox, transcript: TranscriptRecorder, live: LiveEvents,
        want: type[Answer],
    ) -> tuple[Answer, str]:  # fmt: skip
        """The answer and who gave it."""
        with self._context.book() as book:
            chain = self._chain(agent, transcript, live, book)
            try:
                return await _run_agent_loop(chain, Toolkit(tools, live), prompt, want), chain.used
            except NoModelAnsweredError:
                return await OfflinePolicy().answer(agent, prompt, brief, tools, want), OFFLINE

    def _announce(
        self, agent: str, prompt: str, brief: Brief, tools: tuple[str, ...], want: type[BaseModel]
    ) -> TranscriptStarted:
        return TranscriptStarted(
            agent=agent,
            planner=self.name,
            want=want.__name__,
            tools=tools,
            prompt=digest(prompt),
            brief=brief.model_dump(mode="json"),
            steps=self._context.settings.chat_steps,
            tokens=self._context.settings.chat_tokens,
        )

    def _chain(self, agent: str, transcript: TranscriptRecorder, live: LiveEvents, book: CallLedger) -> ModelChain:
        settings = self._context.settings
        caller = ModelCaller(agent, settings, self._secrets, transcript, book, live)
        return ModelChain(
            caller, model_chain(agent, settings), ModelMemory(self._context.memory), self._context.first_wait
        )


def _recorded_answer(ended: TranscriptEnded, want: type[Answer]) -> Answer:
    """What was found before the interruption."""
    if ended.answer is None:
        raise RecipeError(ended.error, culprit="planner")
    return want.model_validate(ended.answer)


async def _run_agent_loop(chain: ModelChain, toolkit: Toolkit, prompt: str, want: type[Answer]) -> Answer:
    """The loop of model and tools, until there is an answer or a limit is reached."""
    stable, now = split_prompt(prompt)
    referee = AnswerRepairs(chain.caller.agent, want.__name__)
    model = FallbackModel(talk=Conversation(chain, toolkit, want.__name__))
    agent = create_agent(
        model,
        await toolkit.all(),
        system_prompt=f"{stable}\n\n{HOW.format(answer=want.__name__)}".strip(),
        response_format=ToolStrategy(want, handle_errors=referee.invalid),
        checkpointer=False,
        name=chain.caller.agent,
    )
    given: Any = {"messages": [HumanMessage(now)]}
    while True:
        # A graph of its own: in the context of the graph around it, it would write that one's checkpoints.
        asked = asyncio.create_task(agent.ainvoke(given, {"recursion_limit": 10_000}), context=contextvars.Context())
        state = await asked
        found = state.get("structured_response")
        if isinstance(found, want):
            return found
        said = state["messages"][-1].text.strip()
        why = f"you said {said[:200]!r} and called nothing" if said else "you said nothing"
        given = {"messages": [*state["messages"], HumanMessage(referee.repair(why))]}
