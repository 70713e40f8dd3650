"""One record of training data, whatever schema it came in: what is asked, what is answered, what is written on."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson


class Row(NamedTuple):
    """`turns` end with a question, asked and answered before it in turn; `answers` holds one, or chosen and rejected.

    `kept` is the record as it is written, `good` the judgement of a kto record.
    """

    turns: tuple[str, ...]
    answers: tuple[str, ...]
    kept: dict[str, Any]
    system: str = ""
    good: bool | None = None

    @property
    def asked(self) -> str:
        """All that the user says."""
        return self.turns[0] if len(self.turns) == 1 else "\n".join(self.turns[::2])

    @property
    def output(self) -> str:
        """The answer that is trained on."""
        return self.answers[0]


def empty_part(row: Row) -> str | None:
    """What must say something and does not: `asked` or `answered`; pairs that say the same are `no pair`."""
    if not row.turns[-1].strip():
        return "asked"
    if not all(answer.strip() for answer in row.answers):
        return "answered"
    return "no pair" if len(row.answers) > 1 and row.answers[0] == row.answers[1] else None


def kind(value: Any) -> str:
    """What a JSON value is, in words."""
    names = {str: "text", int: "a number", float: "a number", bool: "true or false", list: "a list", dict: "an object"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def unwritable(row: Row) -> bool:
    """Whether it holds what no file can: half of a surrogate pair, a number beyond 64 bits."""
    try:
        orjson.dumps(row.kept)
    except TypeError:
        return True
    return False
