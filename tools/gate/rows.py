"""One record of training data: is it Alpaca, what does it say, and has it been seen before."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

FIELDS = ("instruction", "input", "output")
EXPECTED = "expected instruction, output and optionally input, all text"


@dataclass(frozen=True)
class Row:
    """One record; `number` counts from 1 in the script's file."""

    number: int
    instruction: str
    input: str
    output: str

    @property
    def asked(self) -> str:
        """The user's turn as the engine joins it."""
        return f"{self.instruction}\n{self.input}" if self.input else self.instruction

    def as_json(self) -> dict[str, str]:
        """The record as it is written."""
        return {"instruction": self.instruction, "input": self.input, "output": self.output}


def read_row(number: int, value: Any) -> Row | str:
    """The record, or a sentence that says what is wrong with it."""
    if not isinstance(value, dict):
        return f"row {number} is {_kind(value)}, no object; {EXPECTED}"
    for name in ("instruction", "output"):
        if name not in value:
            has = ", ".join(map(str, list(value)[:6])) or "nothing"
            return f'row {number} has no field "{name}" (it has: {has}); {EXPECTED}'
    for name in FIELDS:
        if not isinstance(value.get(name) or "", str):
            return f'row {number} field "{name}" is {_kind(value[name])}; {EXPECTED}'
    return Row(number, *((value.get(name) or "") for name in FIELDS))


def empty_field(row: Row) -> str | None:
    """The field that must say something and does not."""
    if not row.asked.strip():
        return "instruction"
    return None if row.output.strip() else "output"


def _kind(value: Any) -> str:
    names = {str: "text", int: "a number", float: "a number", bool: "true or false", list: "a list", dict: "an object"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


@dataclass
class Repeats:
    """Counts records that came before: the same, nearly the same, or the same question with another answer."""

    exact: int = 0
    near: int = 0
    reasked: int = 0
    _seen: set[bytes] = field(default_factory=set)
    _near: set[bytes] = field(default_factory=set)
    _asked: Counter[bytes] = field(default_factory=Counter)

    def add(self, row: Row) -> None:
        """Take one record in."""
        asked = normalised(row.asked)
        whole, near, question = _hash(row.asked, row.output), _hash(asked, normalised(row.output)), _hash(asked)
        if whole in self._seen:
            self.exact += 1
        elif near in self._near:
            self.near += 1
        elif self._asked[question]:
            self.reasked += 1
        self._seen.add(whole)
        self._near.add(near)
        self._asked[question] += 1


def normalised(text: str) -> str:
    """Lower-case letters and digits, one space between; signs that change a sum are kept."""
    return " ".join(re.findall(r"[^\W_]+|[-+*/=<>^%]", text.lower()))


def _hash(*parts: str) -> bytes:
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=12).digest()
