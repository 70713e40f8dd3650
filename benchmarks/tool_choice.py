"""Is the right tool picked? `python benchmarks/tool_choice.py` ranks the tools of all servers for what people ask.

Without a model by words alone (BM25 over names, descriptions and arguments): a description that words lead to wrongly would
mislead a model too. With CHAT_MODEL set, that model chooses among the same tools. One request a question, nothing is called.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from fastmcp import Client

from tuneloop.core.settings import Settings, load_settings
from tuneloop.mcp_servers.main import SERVERS, build_named_server
from tuneloop.mcp_servers.scope import Scope

QUESTIONS = Path(__file__).with_name("tool_choice.yaml")
K1, B = 1.2, 0.6
LEAST_FIRST = 0.85
NAME_WEIGHT = 2  # a word of the name counts as often
ENDINGS = ("ings", "ing", "ers", "ed", "es", "s", "e", "er")
SILENT = frozenset(
    [
        "a",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "before",
        "by",
        "can",
        "come",
        "did",
        "do",
        "does",
        "for",
        "from",
        "give",
        "had",
        "has",
        "have",
        "how",
        "i",
        "if",
        "in",
        "is",
        "it",
        "its",
        "let",
        "me",
        "more",
        "my",
        "of",
        "on",
        "one",
        "or",
        "our",
        "out",
        "so",
        "some",
        "than",
        "that",
        "the",
        "their",
        "them",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "were",
        "what",
        "when",
        "where",
        "which",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
        "am",
        "we",
        "need",
        "show",
        "tell",
    ]
)


@dataclass(frozen=True)
class Question:
    """`right`: any of them is a right choice; `held`: written after all descriptions were."""

    ask: str
    right: tuple[str, ...]
    held: bool = False


@dataclass(frozen=True)
class Offered:
    """A tool as a model sees it."""

    name: str
    description: str
    schema: dict[str, Any]


def questions() -> list[Question]:
    """All of them."""
    rows = yaml.safe_load(QUESTIONS.read_text(encoding="utf-8"))
    return [Question(row["ask"], tuple(row["right"]), row.get("held", False)) for row in rows]


async def offered(settings: Settings) -> list[Offered]:
    """The tools of all servers."""
    found = []
    for server in SERVERS:
        async with Client(build_named_server(server, Scope(None, settings, owner=True))) as client:
            for tool in await client.list_tools():
                found.append(Offered(f"{server}_{tool.name}", tool.description or "", tool.input_schema))
    return found


def words(text: str) -> list[str]:
    """Stems of the words that say something."""
    found = re.findall(r"[a-z0-9_]+", text.lower())  # another tool's name is one word
    return [stem(word) for word in found if word not in SILENT]


def stem(word: str) -> str:
    """`runs`, `running`, `run` are one word; no dictionary."""
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending)
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


class ByWords:
    """BM25 over the tools."""

    def __init__(self, tools: Sequence[Offered]) -> None:
        self.names = [tool.name for tool in tools]
        self.bags = [Counter(self._said(tool)) for tool in tools]
        self.mean = sum(map(Counter.total, self.bags)) / len(self.bags)
        self.held_by = Counter(word for bag in self.bags for word in bag)

    @staticmethod
    def _said(tool: Offered) -> list[str]:
        arguments = " ".join(name for name in tool.schema.get("properties", {}))
        return (
            sorted(set(words(tool.name.replace("_", " ")))) * NAME_WEIGHT + words(tool.description) + words(arguments)
        )

    def rank(self, ask: str) -> list[str]:
        """Names, the best first; of equals the one that is listed first."""
        asked = set(words(ask))
        scores = [sum(self._weight(word, bag) for word in asked & bag.keys()) for bag in self.bags]
        return [self.names[i] for i in sorted(range(len(scores)), key=lambda i: -scores[i])]

    def _weight(self, word: str, bag: Counter[str]) -> float:
        rare = math.log(1 + (len(self.bags) - self.held_by[word] + 0.5) / (self.held_by[word] + 0.5))
        return rare * bag[word] * (K1 + 1) / (bag[word] + K1 * (1 - B + B * bag.total() / self.mean))


def shares(asked: Sequence[Question], rank: Callable[[str], list[str]]) -> tuple[float, float, list[str]]:
    """Shares of questions whose right tool is first, and among the first three; and what went wrong."""
    first = third = 0
    wrong = []
    for question in asked:
        found = rank(question.ask)
        first += found[0] in question.right
        third += bool(set(found[:3]) & set(question.right))
        if found[0] not in question.right:
            wrong.append(f"{question.ask!r}: {', '.join(found[:3])}; right: {', '.join(question.right)}")
    return first / len(asked), third / len(asked), wrong


def by_model(model: str, tools: Sequence[Offered]) -> Callable[[str], list[str]]:
    """What a chat model would call for a question: its first choices in order."""
    from langchain.chat_models import init_chat_model

    told = [
        {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.schema}}
        for t in tools
    ]
    options = {"base_url": os.environ["OPENAI_API_BASE"]} if os.environ.get("OPENAI_API_BASE") else {}
    name = model if ":" in model else f"openai:{model}"
    chat = init_chat_model(name, temperature=0, **options).bind_tools(told)

    def rank(ask: str) -> list[str]:
        reply: Any = chat.invoke(f"{ask}\n\nCall the one tool that helps most. Invent arguments that you do not know.")
        return [call["name"] for call in reply.tool_calls] or ["none"]

    return rank


def main() -> None:
    """Print both shares and every wrong choice; exit 1 below what is promised."""
    tools = asyncio.run(offered(load_settings()))
    model = os.environ.get("CHAT_MODEL", "")
    rank = by_model(model, tools) if model else ByWords(tools).rank
    asked = [question for question in questions() if not question.held]
    first, third, wrong = shares(asked, rank)
    held = shares([question for question in questions() if question.held], rank)
    print("\n".join(wrong))
    said = {"by": model or "words", "tools": len(tools), "questions": len(asked), "first": first, "of_three": third}
    print(json.dumps({**said, "held_first": held[0], "held_of_three": held[1]}))
    sys.exit(first < LEAST_FIRST)


if __name__ == "__main__":
    main()
