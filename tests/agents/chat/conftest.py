"""A chat planner at a table of its own: a scripted provider, two tools, a book, and everything it tells."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import Call, Chat, Reply, Said, chat_server
from tuneloop.agents.chat.planner import ChatPlanner
from tuneloop.agents.chat.planner_context import PlannerContext
from tuneloop.core.async_bridge import run_sync
from tuneloop.core.brief import Brief, BudgetLeft, TaskCard
from tuneloop.core.errors import ToolError
from tuneloop.core.events import Event
from tuneloop.core.experiment import Critique
from tuneloop.core.layout import RunFolder
from tuneloop.core.protocols import ToolCard
from tuneloop.core.settings import Settings
from tuneloop.core.transcript import ModelCall, Tokens, ToolUse, TranscriptEnded, TranscriptLine, read_transcript

CANARY = "canary-7f3a9c51d2e84b60"
ANSWER = {"explanation": "The form was wrong.", "lesson": "Keep the form.", "blame": "format"}
GOOD = Reply("", (Call("Critique", ANSWER),), usage=(100, 20, 40))
PROMPT = "You are the critic.\n---\nExplain experiment 1."
TASK = TaskCard(
    benchmark="b", domain="math", description="d", answer="number", prompt="{q}", metric="accuracy", direction="max",
    max_new_tokens=8, base_model="m", datasets=("rows",), row_limit=10, seed=1, device="cpu",
)  # fmt: skip
BRIEF = Brief(task=TASK, experiment=1, budget=BudgetLeft(experiments_left=1, seconds_left=None))


@dataclass
class Tools:
    """`look` gives letters, slowly of what is far, `count` a number that grows; `params_*` and others are refused."""

    used: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    looks: int = 100

    async def call(self, tool: str, **arguments: Any) -> Any:
        self.used.append((tool, arguments))
        match tool:
            case "data_look":
                if arguments.get("where") == "far":
                    await asyncio.sleep(0.05)
                return {"letters": "abcdefghij" * (self.looks // 10)}
            case "data_count":
                return len(self.used)
        raise ToolError(f"{tool} has nothing for {arguments}; right is data_look")

    async def names(self) -> Sequence[str]:
        return [card.name for card in await self.cards()]

    async def cards(self) -> Sequence[ToolCard]:
        where = {"type": "object", "properties": {"where": {"type": "string"}}}
        none = {"type": "object", "properties": {}}
        return [
            ToolCard("data_look", "Look.", where),
            ToolCard("data_count", "Count.", none),
            ToolCard("data_fail", "Fail.", where),
        ]


@dataclass
class Booked:
    """A book in memory."""

    begun: list[tuple[str, str, Tokens]] = field(default_factory=list)
    over: list[ModelCall] = field(default_factory=list)

    def begin(self, agent: str, model: str, tokens: Tokens) -> str:
        self.begun.append((agent, model, tokens))
        return str(len(self.begun))

    def end(self, name: str, call: ModelCall) -> None:
        self.over.append(call)


@dataclass
class Table:
    """One planner, and what happened at it."""

    chat: Chat
    folder: Path
    more: dict[str, Any]
    tools: Tools = field(default_factory=Tools)
    book: Booked = field(default_factory=Booked)
    events: list[Event] = field(default_factory=list)

    @property
    def settings(self) -> Settings:
        given = {"CHAT_MODEL": "m", "OPENAI_API_KEY": CANARY, "OPENAI_API_BASE": self.chat.url, **self.more}
        return Settings(FT_FILE_PATH=self.folder, **given)

    @property
    def context(self) -> PlannerContext:
        @contextmanager
        def book() -> Iterator[Booked]:
            yield self.book

        return PlannerContext(
            self.settings, self.transcript, self.folder / "models.json", self.events.append, book, 0.01
        )

    def transcript(self, agent: str = "critic") -> Path:
        return RunFolder(self.folder).experiment(1).answers / f"{agent}.0.calls.jsonl"

    def ask(self, *, live: bool = True, agent: str = "critic", want: Any = Critique, prompt: str = PROMPT) -> Any:
        tools = self.tools if live else None
        return run_sync(ChatPlanner(self.context, live=live).answer(agent, prompt, BRIEF, tools, want))

    @property
    def lines(self) -> list[TranscriptLine]:
        return list(read_transcript(self.transcript()))

    @property
    def calls(self) -> list[ModelCall]:
        return [line for line in self.lines if isinstance(line, ModelCall)]

    @property
    def uses(self) -> list[ToolUse]:
        return [line for line in self.lines if isinstance(line, ToolUse)]

    @property
    def ended(self) -> TranscriptEnded:
        last = self.lines[-1]
        assert isinstance(last, TranscriptEnded)
        return last

    def told(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.kind == kind]


Sit = Callable[..., Table]


@pytest.fixture
def sit(tmp_path: Path) -> Iterator[Sit]:
    """`sit(first, second, …, powers={…}, SETTING=…)`: answers in order, the last again and again."""
    with chat_server(lambda _: GOOD) as chat:
        numbers = itertools.count(1)

        def make(*said: Said | Callable[[dict[str, Any]], Said], powers: Any = None, **more: Any) -> Table:
            script = list(said) or [GOOD]

            def say(asked: dict[str, Any]) -> Said:
                found = script.pop(0) if len(script) > 1 else script[0]
                return found(asked) if callable(found) else found

            chat.say, chat.powers = say, powers or {}
            return Table(chat, tmp_path / "home" / "runs" / f"t{next(numbers)}", more)

        yield make
