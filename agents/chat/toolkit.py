"""The tools of one answer as langchain wants them: results recorded, cut into pages, repetitions noticed."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

from tuneloop.agents.chat.live_events import LiveEvents
from tuneloop.agents.chat.recorder import TranscriptRecorder, call_key
from tuneloop.agents.chat.tool_calling import BROKEN_ARGUMENTS
from tuneloop.core.errors import ToolError
from tuneloop.core.files import digest
from tuneloop.core.prompt_escaping import escape_role_markers
from tuneloop.core.protocols import Toolbox, ToolCard
from tuneloop.core.redaction import SecretRedactor
from tuneloop.core.transcript import ToolUse

# Tools and results as a model reads them: what only a program needs is left out, numbers are short.

# A server checks arguments itself, and says what is wrong in words.
CHECKED = ("additionalProperties", "maxLength", "minLength", "maximum", "minimum", "title")
ROWS = 3  # objects from which on a table is shorter
NOTHING: tuple[Any, ...] = ("", [], {})


def compact_result(result: Any) -> str:
    """A tool's result as text: compact JSON, fields without a value left out, objects alike as a table, numbers of four digits."""
    return escape_role_markers(
        result if isinstance(result, str) else json.dumps(_short(result), ensure_ascii=False, separators=(",", ":"))
    )


def _short(value: Any) -> Any:
    match value:
        case float():
            return _number(value)
        case dict():
            return {name: _short(part) for name, part in value.items() if part not in NOTHING}
        case list():
            return _as_table([_short(part) for part in value])
    return value


def _as_table(parts: list[Any]) -> Any:
    """Many objects of the same fields as a table: each name is said once."""
    if len(parts) < ROWS or not all(isinstance(part, dict) and part for part in parts):
        return parts
    columns = list(dict.fromkeys(name for part in parts for name in part))
    if len(columns) > 2 * min(map(len, parts)):
        return parts
    return {"columns": columns, "rows": [[part.get(name, "") for name in columns] for part in parts]}


def _number(value: float) -> float | int:
    short = float(f"{value:.4g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def compact_cards(cards: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Tools in OpenAI's form with thin schemas; what several say of a parameter in the same words is said once."""
    known: set[tuple[str, str]] = set()
    return tuple(
        {**card, "function": {**card["function"], "parameters": _drop_known_descriptions(card, known)}}
        for card in cards
    )


def _drop_known_descriptions(card: dict[str, Any], known: set[tuple[str, str]]) -> dict[str, Any]:
    schema = compact_schema(card["function"].get("parameters", {}))
    for name, part in schema.get("properties", {}).items():
        said = (name, part.get("description", ""))
        if said in known:
            del part["description"]
        elif said[1]:
            known.add(said)
    return schema


def compact_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A tool's schema without bounds; what may be left out may be null, and need not say so."""
    kept = {
        name: value
        for name, value in schema.items()
        if name not in CHECKED and not (name == "default" and value in (None, ""))
    }
    options = [option for option in kept.pop("anyOf", ()) if option != {"type": "null"}]
    if len(options) == 1:
        kept = {**options[0], **kept}
    elif options:
        kept["anyOf"] = [compact_schema(option) for option in options]
    if "enum" in kept:
        kept.pop("type", None)
    if isinstance(kept.get("properties"), dict):
        kept["properties"] = {name: compact_schema(part) for name, part in kept["properties"].items()}
    if isinstance(kept.get("items"), dict):
        kept["items"] = compact_schema(kept["items"])
    return {name: value for name, value in kept.items() if name not in CHECKED}


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


class RecordedToolbox:
    """A Toolbox that gives recorded results first, and records what it calls. Without one behind it, only recorded ones."""

    def __init__(self, behind: Toolbox | None, transcript: TranscriptRecorder, secrets: SecretRedactor) -> None:
        self._behind, self._transcript, self._secrets = behind, transcript, secrets

    async def call(self, tool: str, **arguments: Any) -> Any:
        """The tool's answer. Raises ToolError."""
        use = self._transcript.tool(tool, arguments)
        if use is None:
            use = await self._call_tool(tool, arguments)
            self._transcript.write(use)
        if use.error is not None:
            raise ToolError(use.error)
        return use.result

    async def _call_tool(self, tool: str, arguments: dict[str, Any]) -> ToolUse:
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

    def __init__(self, tools: Toolbox, live: LiveEvents) -> None:
        self._tools, self._live = tools, live
        self._results: list[str] = []
        self._seen: Counter[str] = Counter()
        self._notes: dict[str, set[tuple[str, str]]] = {}
        self._repeated = 0
        # Calls wished for at once are made one after another, in their order: names of pages and reminders depend on it.
        self._turn = asyncio.Lock()

    @property
    def is_stuck(self) -> bool:
        """The same calls got the same results again and again."""
        return self._repeated >= MOST_REPEATED

    def forget(self) -> None:
        """What was found no longer stands above: the agent may ask for it again."""
        self._seen.clear()
        self._notes.clear()

    async def all(self) -> list[BaseTool]:
        """What the agent may use."""
        cards = sorted(await self._tools.cards(), key=lambda card: card.name)
        return [*(_tool(card, self._tool_function(card.name)) for card in cards), _tool(MORE, self._page_of)]

    def _tool_function(self, name: str) -> Callable[..., Awaitable[str]]:
        async def ask(**arguments: Any) -> str:
            async with self._turn:
                return await self._use(name, arguments)

        return ask

    async def _use(self, name: str, arguments: dict[str, Any]) -> str:
        """The result as text; a refusal is text as well, so that the agent can do better."""
        refused = False
        if arguments.keys() == {BROKEN_ARGUMENTS}:
            return f"Error: the arguments were no JSON object: {str(arguments[BROKEN_ARGUMENTS])[:200]}"
        try:
            found = await self._tools.call(name, **arguments)
            text = compact_result(self._without_known_notes(name, found))
        except ToolError as e:
            text, refused = compact_result(f"Error: {e}"), True
        self._live.tool_called(name, arguments, text, refused=refused)
        return self._repeated_result(call_key(name, arguments), text) or self._first_page(text)

    def _without_known_notes(self, tool: str, found: Any) -> Any:
        """A result without the `why` of values that stands above, word for word, in an earlier result of the tool."""
        why = found.get("why") if isinstance(found, dict) else None
        if not isinstance(why, dict) or not all(isinstance(text, str) for text in why.values()):
            return found
        known = self._notes.setdefault(tool, set())
        new = {name: text for name, text in why.items() if (name, text) not in known}
        known.update(new.items())
        return {**found, "why": new if len(new) == len(why) else {**new, "others": "as above"}}

    def _repeated_result(self, call: str, text: str) -> str:
        """What is said instead of a result that the agent has already."""
        mark = f"{call} {digest(text)}"
        self._seen[mark] += 1
        if self._seen[mark] == 1:
            return ""
        self._repeated += 1
        return "You have made this call before and its result is the same as above. Do something else, or answer."

    def _first_page(self, text: str) -> str:
        if len(text) <= PAGE:
            return text
        self._results.append(text)
        return _page(f"r{len(self._results)}", text, 1)

    async def _page_of(self, result: str = "", page: int | float | str = 1, **_: Any) -> str:
        async with self._turn:
            return self._next_page(result, page)

    def _next_page(self, result: str, page: int | float | str) -> str:
        there = {f"r{i}": text for i, text in enumerate(self._results, 1)}
        if result not in there:
            return f"Error: there is no result {result!r}; there are {', '.join(there) or 'none'}"
        if isinstance(page, str | float) and re.fullmatch(r"\d{1,6}(?:\.0)?", str(page)):
            page = int(float(page))
        if not isinstance(page, int) or not 1 <= page <= _pages(there[result]):
            return f"Error: {result} has pages 1 to {_pages(there[result])}"
        text = _page(result, there[result], page)
        return self._repeated_result(call_key("read_more", {"result": result, "page": page}), text) or text


def _tool(card: ToolCard, ask: Callable[..., Awaitable[str]]) -> BaseTool:
    return StructuredTool(name=card.name, description=card.description, args_schema=card.schema, coroutine=ask)


def _pages(text: str) -> int:
    return len(split_pages(text))


def split_pages(text: str) -> list[str]:
    """Pages of at most `PAGE` letters that end between two rows; only a row that is longer than a page is cut."""
    pages = []
    while len(text) > PAGE:
        end = _page_end(text)
        pages.append(text[:end])
        text = text[end:]
    return [*pages, text]


def _page_end(text: str) -> int:
    """Behind the last comma or line break on the page that lies least deep in brackets."""
    depth, quoted, escaped = 0, False, False
    best: tuple[int, int] | None = None
    for at, letter in enumerate(text[:PAGE]):
        if quoted:
            quoted, escaped = letter != '"' or escaped, letter == "\\" and not escaped
        elif letter == '"':
            quoted, escaped = True, False
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter in ",\n" and at >= PAGE // 4 and (best is None or depth <= best[0]):
            best = depth, at
    return best[1] + 1 if best else PAGE


def _page(name: str, text: str, page: int) -> str:
    parts = split_pages(text)
    part, pages = parts[page - 1], len(parts)
    more = f'; go on with read_more(result="{name}", page={page + 1})' if page < pages else ""
    return f"{part}\n[result {name}, page {page} of {pages}{more}]"
