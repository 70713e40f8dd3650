"""The tools of one answer as langchain wants them: results recorded, cut into pages, repetitions noticed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

from tuneloop.agents.chat.brevity import told
from tuneloop.agents.chat.dialects import BROKEN
from tuneloop.agents.chat.live import Live
from tuneloop.agents.chat.transcript import Transcript, key
from tuneloop.core.errors import ToolError
from tuneloop.core.files import digest
from tuneloop.core.model_call import ToolUse
from tuneloop.core.secret import Secrets
from tuneloop.core.toolbox import Toolbox, ToolCard

PAGE = 3000
MOST_REPEATED = 3
MORE = ToolCard(
    "read_more",
    "A further page of a result that was too long to show at once.",
    {
        "type": "object",
        "properties": {
            "result": {"type": "string", "description": "name of the result, e.g. r3"},
            "page": {"type": "integer", "minimum": 1},
        },
        "required": ["result", "page"],
    },
)


class Recorded:
    """A Toolbox that gives recorded results first, and records what it calls. Without one behind it, only recorded ones."""

    def __init__(self, behind: Toolbox | None, transcript: Transcript, secrets: Secrets) -> None:
        self._behind, self._transcript, self._secrets = behind, transcript, secrets

    async def call(self, tool: str, **arguments: Any) -> Any:
        """The tool's answer. Raises ToolError."""
        use = self._transcript.tool(tool, arguments)
        if use is None:
            use = await self._made(tool, arguments)
            self._transcript.write(use)
        if use.error is not None:
            raise ToolError(use.error)
        return use.result

    async def _made(self, tool: str, arguments: dict[str, Any]) -> ToolUse:
        if self._behind is None:
            raise ToolError(f"{tool}({arguments}) is not recorded")
        try:
            result = await self._behind.call(tool, **arguments)
        except ToolError as e:
            return ToolUse(name=tool, arguments=arguments, error=self._secrets.blot(str(e)))
        return ToolUse(name=tool, arguments=arguments, result=self._secrets.blot(result))

    async def names(self) -> Sequence[str]:
        """Names of the tools."""
        return [card.name for card in await self.cards()]

    async def cards(self) -> Sequence[ToolCard]:
        """As the toolbox behind describes them; when only replayed, as they were named."""
        if self._behind is not None:
            return await self._behind.cards()
        told = self._transcript.told
        return [ToolCard(name, "", {"type": "object"}) for name in told.tools] if told else []


class Toolkit:
    """`stuck`: the agent repeats itself and had better answer."""

    def __init__(self, tools: Toolbox, live: Live) -> None:
        self._tools, self._live = tools, live
        self._results: list[str] = []
        self._seen: Counter[str] = Counter()
        self._repeated = 0
        # Calls wished for at once are made one after another, in their order: names of pages and reminders depend on it.
        self._turn = asyncio.Lock()

    @property
    def stuck(self) -> bool:
        """The same calls got the same results again and again."""
        return self._repeated >= MOST_REPEATED

    def forget(self) -> None:
        """What was found no longer stands above: the agent may ask for it again."""
        self._seen.clear()

    async def all(self) -> list[BaseTool]:
        """What the agent may use."""
        cards = sorted(await self._tools.cards(), key=lambda card: card.name)
        return [*(_tool(card, self._asker(card.name)) for card in cards), _tool(MORE, self._more)]

    def _asker(self, name: str) -> Callable[..., Awaitable[str]]:
        async def ask(**arguments: Any) -> str:
            async with self._turn:
                return await self._use(name, arguments)

        return ask

    async def _use(self, name: str, arguments: dict[str, Any]) -> str:
        """The result as text; a refusal is text as well, so that the agent can do better."""
        refused = False
        if arguments.keys() == {BROKEN}:
            return f"Error: the arguments were no JSON object: {str(arguments[BROKEN])[:200]}"
        try:
            text = told(await self._tools.call(name, **arguments))
        except ToolError as e:
            text, refused = told(f"Error: {e}"), True
        self._live.used(name, arguments, text, refused=refused)
        return self._again(key(name, arguments), text) or self._paged(text)

    def _again(self, call: str, text: str) -> str:
        """What is said instead of a result that the agent has already."""
        mark = f"{call} {digest(text)}"
        self._seen[mark] += 1
        if self._seen[mark] == 1:
            return ""
        self._repeated += 1
        return "You have made this call before and its result is the same as above. Do something else, or answer."

    def _paged(self, text: str) -> str:
        if len(text) <= PAGE:
            return text
        self._results.append(text)
        return _page(f"r{len(self._results)}", text, 1)

    async def _more(self, result: str = "", page: int = 1, **_: Any) -> str:
        async with self._turn:
            return self._further(result, page)

    def _further(self, result: str, page: int) -> str:
        there = {f"r{i}": text for i, text in enumerate(self._results, 1)}
        if result not in there:
            return f"Error: there is no result {result!r}; there are {', '.join(there) or 'none'}"
        if not isinstance(page, int) or not 1 <= page <= _pages(there[result]):
            return f"Error: {result} has pages 1 to {_pages(there[result])}"
        text = _page(result, there[result], page)
        return self._again(key("read_more", {"result": result, "page": page}), text) or text


def _tool(card: ToolCard, ask: Callable[..., Awaitable[str]]) -> BaseTool:
    return StructuredTool(name=card.name, description=card.description, args_schema=card.schema, coroutine=ask)


def _pages(text: str) -> int:
    return -(-len(text) // PAGE)


def _page(name: str, text: str, page: int) -> str:
    part = text[(page - 1) * PAGE : page * PAGE]
    pages = _pages(text)
    more = f'; go on with read_more(result="{name}", page={page + 1})' if page < pages else ""
    return f"{part}\n[result {name}, page {page} of {pages}{more}]"
