"""How a record of each registration is read: Alpaca, turns of a chat, pairs and judgements, all as one kind of row."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from tuneloop.core.files import parse_json
from tuneloop.tools.config.data_columns import Columns

# One record of training data, whatever schema it came in: what is asked, what is answered, what is written on.


class TrainingRow(NamedTuple):
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


def find_empty_part(row: TrainingRow) -> str | None:
    """What must say something and does not: `asked` or `answered`; pairs that say the same are `no pair`."""
    if not row.turns[-1].strip():
        return "asked"
    if not all(text.strip() for text in (*row.answers, *row.turns[1::2])):
        return "answered"
    return "no pair" if len(row.answers) > 1 and row.answers[0] == row.answers[1] else None


def json_kind(value: Any) -> str:
    """What a JSON value is, in words."""
    names = {str: "text", int: "a number", float: "a number", bool: "true or false", list: "a list", dict: "an object"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def is_unwritable(row: TrainingRow) -> bool:
    """Whether it holds what no file can: half of a surrogate pair, a number beyond 64 bits."""
    try:
        orjson.dumps(row.kept)
    except TypeError:
        return True
    return False


PLAIN = Columns()
THOUGHT, CALL = re.compile(r"<think>.*?</think>", re.DOTALL), "<tool_call>"  # around a call, as templates write them


class RecordError(NamedTuple):
    """Why a record is none: `field` is where ("" for the whole record), `found` what stands there."""

    field: str
    found: str
    expected: str


Read = Callable[[Any], TrainingRow | RecordError]


@dataclass(frozen=True)
class Schema:
    """`read` makes a row of a record; `fields` are what the engine trains on, all else is left out."""

    columns: Columns
    fields: frozenset[str]
    read: Read

    def empty_field(self, what: str, row: TrainingRow) -> str:
        """The column that `find_empty_part` means."""
        c = self.columns
        if what == "no pair":
            return str(c.rejected)
        answers = (c.chosen, c.rejected) if c.ranking else (c.response,)
        empty = next((name for name, text in zip(answers, row.answers, strict=False) if not text.strip()), None)
        if what == "answered" and empty and (c.ranking or c.formatting == "alpaca"):
            return empty
        asked = (c.prompt or c.query) if what == "asked" else c.history
        return str(asked if c.formatting == "alpaca" else c.messages)


def schema_of(entry: Mapping[str, Any] | None = None) -> Schema:
    """The schema of a registration, an entry of `dataset_info.json`; without one plain Alpaca."""
    return schema_of_columns(Columns.of(entry) if entry else PLAIN)


def schema_of_columns(columns: Columns, *, answered: bool = True) -> Schema:
    """The same for columns; `answered` False: the stage trains on the prompt alone."""
    chat = columns.formatting != "alpaca"
    roles: tuple[str, ...] = ("messages",) if chat else ("prompt", "query", "response", "history")
    roles = tuple(r for r in roles if not (columns.ranking and r == "response"))
    roles = (*roles, "system", "tools", "images", "videos", "audios", "kto_tag")
    names = (*roles, "chosen", "rejected") if columns.ranking else roles
    fields = frozenset(name for role in names if (name := getattr(columns, role)) is not None)
    if columns == PLAIN and answered:
        return Schema(columns, fields, read_plain)
    read = _Chat(columns).read if chat else _Alpaca(columns, answered=answered).read
    return Schema(columns, fields, read)


def read_plain(value: Any) -> TrainingRow | RecordError:
    """Instruction, input and output, the engine's default; the way of nearly all data, hence without detours."""
    if type(value) is not dict:
        return _not_an_object(value, "instruction, output and optionally input, all text")
    get = value.get
    instruction, more, output = get("instruction"), get("input"), get("output")
    if type(instruction) is str and type(output) is str and type(more) is str:
        asked = f"{instruction}\n{more}" if more else instruction
        return TrainingRow((asked,), (output,), {"instruction": instruction, "input": more, "output": output})
    for name in ("instruction", "output"):
        if name not in value:
            return _missing_field(value, name, "instruction, output and optionally input, all text")
    for name, text in (("instruction", instruction), ("input", more), ("output", output)):
        if text and not isinstance(text, str):
            return RecordError(name, f"is {json_kind(text)}", "text")
    instruction, more, output = instruction or "", more or "", output or ""
    asked = f"{instruction}\n{more}" if more else instruction
    return TrainingRow((asked,), (output,), {"instruction": instruction, "input": more, "output": output})


class _Alpaca:
    """Other columns, a history, pairs, judgements."""

    def __init__(self, columns: Columns, *, answered: bool = True) -> None:
        self.c = c = columns
        self.asked = [name for name in (c.prompt, c.query) if name]
        names = (c.chosen, c.rejected) if c.ranking else (c.response,)
        self.answers = [str(name) for name in names if answered]
        self.expected = f"{', '.join([*self.asked, *self.answers])}, all text"

    def read(self, value: Any) -> TrainingRow | RecordError:
        """One record."""
        if type(value) is not dict:
            return _not_an_object(value, self.expected)
        needed = [*self.asked[:1], *self.answers]
        if (missing := next((n for n in needed if n not in value), None)) is not None:
            return _missing_field(value, missing, self.expected)
        for name in (*self.asked, *self.answers):
            if value.get(name) and not isinstance(value[name], str):
                return RecordError(name, f"is {json_kind(value[name])}", "text")
        history = self.history(value)
        if isinstance(history, RecordError):
            return history
        asked = "\n".join(value[name] for name in self.asked if value.get(name))
        answers = tuple(value.get(name) or "" for name in self.answers)
        return _finish_row(self.c, value, (*history, asked), answers)

    def history(self, value: dict[str, Any]) -> tuple[str, ...] | RecordError:
        """Earlier turns, asked and answered."""
        name = self.c.history
        found = value.get(name) if name else None
        if not found:
            return ()
        right = isinstance(found, list) and all(
            isinstance(pair, list) and len(pair) == 2 and all(isinstance(t, str) for t in pair) for pair in found
        )
        if not right:
            return RecordError(str(name), "holds something else", "a list of [question, answer], both text")
        return tuple(text for pair in found for text in pair)


class _Chat:
    """Turns by role: sharegpt's from and value, or openai's role and content."""

    def __init__(self, columns: Columns) -> None:
        self.c = c = columns
        self.asks, self.answers = (c.user_tag, c.observation_tag), (c.assistant_tag, c.function_tag)
        self.expected = f"{c.messages}: a list of turns, each with {c.role_tag} and {c.content_tag}"

    def read(self, value: Any) -> TrainingRow | RecordError:
        """One record."""
        c, name = self.c, str(self.c.messages)
        if type(value) is not dict:
            return _not_an_object(value, self.expected)
        if name not in value:
            return _missing_field(value, name, self.expected)
        turns = value[name]
        if not isinstance(turns, list) or not turns:
            return RecordError(name, f"is {json_kind(turns) if turns != [] else 'an empty list'}", self.expected)
        found: list[tuple[str, str]] = []
        for number, turn in enumerate(turns, 1):
            said = self.turn(turn)
            if isinstance(said, str):
                return RecordError(f"{name}[{number - 1}]", said, f"{c.role_tag} and {c.content_tag}, both text")
            found.append(said)
        system = found.pop(0)[1] if found[0][0] == c.system_tag else ""
        return self.ordered(value, self.joined(found), system)

    def turn(self, turn: Any) -> tuple[str, str] | str:
        """Role and content, or what is wrong."""
        c = self.c
        if type(turn) is not dict:
            return f"is {json_kind(turn)}"
        role, content = turn.get(c.role_tag), turn.get(c.content_tag)
        if c.formatting == "openai" and turn.get("tool_calls"):
            role, content = c.function_tag, json.dumps(turn["tool_calls"], ensure_ascii=False)
        if role == c.function_tag and type(content) is str and (why := _wrong_call(content)):
            return f"has {c.content_tag}: {why}"
        if type(role) is not str or type(content) is not str:
            wrong, what = (c.role_tag, role) if type(role) is not str else (c.content_tag, content)
            return (
                f"has {wrong}: {json_kind(what)}"
                if wrong in turn
                else f'has no "{wrong}" (it has: {_field_names(turn)})'
            )
        return role, content

    def joined(self, turns: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """With results of tools in a row as one turn, as the engine joins openai's."""
        if self.c.formatting != "openai":
            return turns
        found: list[tuple[str, str]] = []
        for role, content in turns:
            if found and role == self.c.observation_tag == found[-1][0]:
                content = f"{found.pop()[1]}\n</tool_response>\n<tool_response>\n{content}"  # noqa: PLW2901
            found.append((role, content))
        return found

    def ordered(self, value: dict[str, Any], turns: list[tuple[str, str]], system: str) -> TrainingRow | RecordError:
        """Asked and answered take turns, and the last is an answer; for pairs it is a question."""
        c, name = self.c, str(self.c.messages)
        for number, (role, _) in enumerate(turns):
            right = (self.asks, self.answers)[number % 2]
            if role not in right:
                return RecordError(f"{name}, turn {number + 1}", f"is by {role!r}", f"one by {right[0]!r}")
        if len(turns) % 2 != int(c.ranking) or not turns:
            end = "a question, chosen answers it" if c.ranking else "an answer"
            return RecordError(name, f"has {len(turns)} turns", f"turns that end with {end}")
        texts = tuple(text for _, text in turns)
        if not c.ranking:
            return _finish_row(c, value, texts[:-1], texts[-1:], system)
        pair = self.pair(value)
        return pair if isinstance(pair, RecordError) else _finish_row(c, value, texts, pair, system)

    def pair(self, value: dict[str, Any]) -> tuple[str, ...] | RecordError:
        """Chosen and rejected, one turn each."""
        c, found = self.c, []
        for side in (str(c.chosen), str(c.rejected)):
            if side not in value:
                return _missing_field(value, side, f"{side}: one turn with {c.role_tag} and {c.content_tag}")
            said = self.turn(value[side])
            if isinstance(said, str):
                return RecordError(side, said, f"one turn with {c.role_tag} and {c.content_tag}")
            if said[0] not in self.answers:
                return RecordError(side, f"is by {said[0]!r}", f"one by {c.assistant_tag!r}")
            found.append(said[1])
        return tuple(found)


def _finish_row(
    c: Columns, value: dict[str, Any], turns: tuple[str, ...], answers: tuple[str, ...], system: str = ""
) -> TrainingRow | RecordError:
    """The row, after what every registration may have: a judgement and a system text."""
    tag = None
    if c.kto_tag:
        tag = value.get(c.kto_tag)
        if type(tag) is not bool:
            return RecordError(
                c.kto_tag, f"is {json_kind(tag)}" if c.kto_tag in value else "is missing", "true or false"
            )
    if c.system and not system:
        system = value.get(c.system) or ""
        if not isinstance(system, str):
            return RecordError(c.system, f"is {json_kind(system)}", "text")
    if c.tools and (why := _wrong_tools(value.get(c.tools), c)):
        return RecordError(c.tools, why, """a JSON list of tools as text, e.g. '[{"name": "add", …}]'""")
    fields = schema_fields(c)
    return TrainingRow(turns, answers, {n: value[n] for n in fields if n in value}, system, tag)


def _wrong_tools(found: Any, c: Columns) -> str:
    """Why the engine cannot show these tools; empty when it can."""
    if not found or (c.formatting == "openai" and isinstance(found, list | dict)):
        return ""
    if not isinstance(found, str):
        return f"is {json_kind(found)}"
    try:
        tools = parse_json(found)
    except ValueError as e:
        return f"is no JSON ({e})"
    return "" if isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools) else "is no list of objects"


def _wrong_call(content: str) -> str:
    """Why the engine cannot read this call of a function; empty when it can."""
    written = THOUGHT.sub("", content)
    if CALL in written:
        return ""
    try:
        calls = parse_json(written)
    except ValueError as e:
        return f"no JSON ({e})"
    calls = calls if isinstance(calls, list) else [calls]
    right = all(isinstance(call, dict) and {"name", "arguments"} <= call.keys() for call in calls)
    return "" if right else "no call with name and arguments"


def schema_fields(c: Columns) -> tuple[str, ...]:
    """Columns that are written on, in the order of the registration."""
    names = (c.prompt, c.query, c.response, c.history) if c.formatting == "alpaca" else (c.messages,)
    media = (c.system, c.tools, c.images, c.videos, c.audios, c.chosen, c.rejected, c.kto_tag)
    return tuple(name for name in (*names, *media) if name)


def _not_an_object(value: Any, expected: str) -> RecordError:
    return RecordError("", f"is {json_kind(value)}, no object", expected)


def _missing_field(value: dict[str, Any], name: str, expected: str) -> RecordError:
    return RecordError("", f'has no field "{name}" (it has: {_field_names(value)})', expected)


def _field_names(value: dict[str, Any]) -> str:
    return ", ".join(map(str, list(value)[:6])) or "nothing"
