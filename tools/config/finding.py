"""One sentence about one key of a config: what is wrong and what would be right."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["error", "warning", "note"]
KeyProblem = tuple[Level, str, str]  # level, key, text


@dataclass(frozen=True)
class Finding:
    """`line` counts from 1, 0: the key is not in the text; `key` is empty when the whole text is meant.

    `override`: number, from 1, of the `key=value` that set the key; 0: none did.
    """

    level: Level
    line: int
    key: str
    text: str
    override: int = 0

    def __str__(self) -> str:
        where = f"train.yaml:{self.line}" if self.line else "train.yaml"
        where = f"override {self.override}" if self.override else where
        return f"{where} {self.key}: {self.text}" if self.key else f"{where}: {self.text}"


def value_text(value: Any) -> str:
    """A value as YAML writes it, cut to one readable piece."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value[:60], ensure_ascii=False)
    return str(value)[:60]


def choices_text(choices: tuple[Any, ...], most: int = 14) -> str:
    """Choices as a list in words; long lists are cut."""
    names = [str(c).lower() if isinstance(c, bool) else str(c) for c in choices]
    return ", ".join(names[:most]) + (f", … ({len(names)} in all)" if len(names) > most else "")
