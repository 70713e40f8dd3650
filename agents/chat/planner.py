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

from tuneloop.agents.chat.call import Caller
from tuneloop.agents.chat.chain import Chain
from tuneloop.agents.chat.desk import Desk
from tuneloop.agents.chat.dialects import BROKEN
from tuneloop.agents.chat.failures import NobodyAnswersError
from tuneloop.agents.chat.live import Live
from tuneloop.agents.chat.memory import Memory
from tuneloop.agents.chat.models import chain_of
from tuneloop.agents.chat.seat import Seat, Talk
from tuneloop.agents.chat.toolkit import Recorded, Toolkit
from tuneloop.agents.chat.transcript import Transcript
from tuneloop.agents.policy import OfflinePolicy
from tuneloop.core.brief import Brief
from tuneloop.core.errors import LimitReachedError, RecipeError
from tuneloop.core.files import digest
from tuneloop.core.model_call import Begun, Book, Ended
from tuneloop.core.secret import secrets_of
from tuneloop.core.toolbox import Toolbox

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
class Referee:
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
            if any(f["loc"] == (BROKEN,) for f in found):
                return self.repair("its arguments were no JSON object, or they were cut off")
            return self.repair("; ".join(f"{'.'.join(map(str, f['loc'])) or 'answer'}: {f['msg']}" for f in found[:10]))
        return self.repair(" ".join(str(source).split()))


class ChatPlanner:
    """A Planner. Every answer has a transcript, from which it goes on after an interruption and is replayed."""

    def __init__(self, desk: Desk, *, live: bool = True) -> None:
        self._desk, self._live = desk, live
        self._secrets = secrets_of(desk.settings)
        self.name = f"chat {desk.settings.chat_model}"

    async def answer(self, agent: str, prompt: str, brief: Brief, tools: Toolbox | None, want: type[Answer]) -> Answer:
        """The agent's answer. Raises RecipeError when none that is usable was found, WorldError for a wrong key."""
        transcript = Transcript(self._desk.transcript(agent), self._secrets, live=self._live)
        if self._live and transcript.ended is not None:
            return _again(transcript.ended, want)
        recorded = Recorded(tools, transcript, self._secrets)
        live = Live(agent, brief.experiment, self._desk.tell, self._secrets)
        if self._live:
            offered = tuple(await recorded.names())
            transcript.begin(self._told(agent, prompt, brief, offered, want))
        try:
            found, by = await self._found(agent, prompt, brief, recorded, transcript, live, want)
        except LimitReachedError:  # no answer: with more to spend it is found where it was left
            raise
        except RecipeError as e:
            transcript.write(Ended(by=self.name, error=str(e)))
            raise
        transcript.write(Ended(by=by, answer=found.model_dump(mode="json")))
        return found

    async def _found(
        self, agent: str, prompt: str, brief: Brief, tools: Toolbox, transcript: Transcript, live: Live,
        want: type[Answer],
    ) -> tuple[Answer, str]:  # fmt: skip
        """The answer and who gave it."""
        with self._desk.book() as book:
            chain = self._chain(agent, transcript, live, book)
            try:
                return await _think(chain, Toolkit(tools, live), prompt, want), chain.used
            except NobodyAnswersError:
                return await OfflinePolicy().answer(agent, prompt, brief, tools, want), OFFLINE

    def _told(self, agent: str, prompt: str, brief: Brief, tools: tuple[str, ...], want: type[BaseModel]) -> Begun:
        return Begun(
            agent=agent,
            planner=self.name,
            want=want.__name__,
            tools=tools,
            prompt=digest(prompt),
            brief=brief.model_dump(mode="json"),
            steps=self._desk.settings.chat_steps,
            tokens=self._desk.settings.chat_tokens,
        )

    def _chain(self, agent: str, transcript: Transcript, live: Live, book: Book) -> Chain:
        settings = self._desk.settings
        caller = Caller(agent, settings, self._secrets, transcript, book, live)
        return Chain(caller, chain_of(agent, settings), Memory(self._desk.memory), self._desk.first_wait)


def _again(ended: Ended, want: type[Answer]) -> Answer:
    """What was found before whoever asked was interrupted."""
    if ended.answer is None:
        raise RecipeError(ended.error, culprit="planner")
    return want.model_validate(ended.answer)


async def _think(chain: Chain, toolkit: Toolkit, prompt: str, want: type[Answer]) -> Answer:
    """The loop of model and tools, until there is an answer or a limit is reached."""
    stable, now = split_prompt(prompt)
    referee = Referee(chain.caller.agent, want.__name__)
    seat = Seat(talk=Talk(chain, toolkit, want.__name__))
    agent = create_agent(
        seat,
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
