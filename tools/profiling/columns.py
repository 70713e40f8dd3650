"""One path of a source with its values, and what names of fields usually mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tuneloop.core.records import text_of

QUESTION = re.compile(
    r"(^|[._=])(question|prompt|problem|query|instruction|input|q|human|user|ask|text|task|body|message|sentence|frage|stem)s?\d*\b"
)
SOLUTION = re.compile(
    r"(^|[._=])(solution|output|response|completion|exp|expl\w*|rationale|reason\w*|support|working|answer|assistant|gpt|model|bot|reply|a|"
    r"worked\w*|cot|thought|target|chosen|antwort|text)s?\b"
)
EXPLAINS = re.compile(
    r"(^|[._])(exp|expl\w*|rationale|reason\w*|solution|worked\w*|working|cot|steps|thoughts?|support|proof)\b"
)
KEY = re.compile(
    r"(^|[._=])(answer|key|label|target|gold|final\w*|correct\w*|category|class|a|result|solution|output|response|truth|intent)s?\b"
)
META = re.compile(
    r"(^|[._])(id|idx|index|uuid|url|date|time\w*|lang\w*|likes|score|rating|temperature|source|split|grade|level|votes|hash)\b"
)
CONTEXT = re.compile(
    r"(^|[._=])(context|passage|input|document|article|table|premise|hypothesis|background|story|sentence\d|subject|title)\b"
)
VERDICT = re.compile(r"(^|[._])(is_?)?(correct|verified|valid|accepted|approved|checked|right|reviewed_ok|passed)\b")
YES, NO = frozenset({"true", "1", "yes", "y"}), frozenset({"false", "0", "no", "n"})
MARKS = (
    "\n### Response:",
    "### Assistant:",
    "\nAnswer:",
    "\nA:",
    "\nSolution:",
    "\nAssistant:",
    "[/INST]",
    "\nBot:",
    "Answer:",
    "\nOutput:",
)


@dataclass(frozen=True)
class Column:
    """One path of a source with the sampled records' values."""

    path: str
    values: Sequence[Any]

    @cached_property
    def texts(self) -> list[str]:
        """Values as texts, the empty ones left out."""
        return [text for text in map(text_of, self.values) if text]

    @cached_property
    def length(self) -> float:
        """Mean characters."""
        return sum(map(len, self.texts)) / len(self.texts) if self.texts else 0.0

    @cached_property
    def distinct(self) -> float:
        """Share of different texts."""
        return len(set(self.texts)) / len(self.texts) if self.texts else 0.0

    @property
    def steps(self) -> bool:
        """A list of texts that are the steps of a solution, by name and by number."""
        lists = [v for v in self.values if isinstance(v, list)]
        many = sum(len(v) > 1 and all(isinstance(part, str) for part in v) for v in lists)
        return self.is_list and self.named(EXPLAINS) and many > 0.3 * len(lists)

    @property
    def is_list(self) -> bool:
        """A list of plain values."""
        return self.path.endswith("[]")

    def named(self, pattern: re.Pattern[str]) -> bool:
        """Whether the path's last name says so."""
        tail = re.sub(r"\[\w+=(\w+)\]\.\w+$", r".\1", self.path.casefold().partition("|")[0])
        return bool(
            pattern.search(
                re.sub(r"\[\d*\]", "", tail).split(".", 1)[-1]
                if tail.startswith("data.")
                else re.sub(r"\[\d*\]", "", tail)
            )
        )
