"""What a chat template puts around a row's texts, read from the engine's source, so that tokens are those it trains on."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tuneloop.tools.config.templates import template_registrations
from tuneloop.tools.data_gate.records import TrainingRow

CONTENT = "{{content}}"


@dataclass(frozen=True)
class TemplatePart:
    """Text around a content; `tokens` are those that it adds beyond the text (bos, eos)."""

    before: str = ""
    after: str = ""
    tokens: int = 0

    def around(self, content: str) -> str:
        """The content in its place."""
        return f"{self.before}{content}{self.after}"


@dataclass(frozen=True)
class ChatTemplate:
    """A template's parts; `extra`: tokens at the end of a record (efficient_eos); `stops` become tokens where they lack."""

    name: str | None = None
    user: TemplatePart = TemplatePart()
    assistant: TemplatePart = TemplatePart()
    system: TemplatePart = TemplatePart()
    prefix: TemplatePart = TemplatePart()
    default_system: str = ""
    extra: int = 0
    stops: tuple[str, ...] = ()

    @property
    def endless(self) -> bool:
        """Whether nothing ends an answer: a model that is trained so goes on until it is stopped."""
        return not (self.assistant.after or self.assistant.tokens or self.extra)

    def texts(self, row: TrainingRow) -> list[str]:
        """Two texts an answer: all that stands before it since the last one, and it with its end."""
        opening = self.opening(row.system)
        user, assistant = self.user.around, self.assistant.around
        if len(row.turns) == 1:
            start = opening + user(row.turns[0])
            return [t for answer in row.answers for t in (start, assistant(answer))]
        spoken = [(user, assistant)[n % 2](text) for n, text in enumerate(row.turns)]
        spoken[0] = opening + spoken[0]
        if len(row.answers) == 1:
            return [*spoken, assistant(row.answers[0])]
        start = "".join(spoken)
        return [t for answer in row.answers for t in (start, assistant(answer))]

    def opening(self, system: str) -> str:
        """What stands before the first question."""
        return self._opening if not system else self.prefix.before + self.system.around(system)

    @cached_property
    def _opening(self) -> str:
        spoken = self.system.around(self.default_system) if self.default_system else ""
        return self.prefix.before + spoken

    def added(self, pairs: int, system: str) -> int:
        """Tokens of a record beyond its texts."""
        opening = self.prefix.tokens + (self.system.tokens if system or self.default_system else 0)
        return opening + pairs * (self.user.tokens + self.assistant.tokens) + self.extra


def read_chat_template(source: Path, name: str, *, bos: bool = True) -> ChatTemplate | None:
    """Template `name` of LLaMA-Factory's `template.py`; None where it is not registered there. Raises OSError.

    `bos`: the tokenizer has a token that begins a text; without one templates leave it out.
    """
    options = template_registrations(source).get(name)
    return None if options is None else _make_template(name, options, bos)


def _make_template(name: str, options: Mapping[str, ast.expr], bos: bool) -> ChatTemplate:
    efficient = _constant(options.get("efficient_eos")) is True
    system = _constant(options.get("default_system"))
    return ChatTemplate(
        name=name,
        user=_parse_slots(options.get("format_user"), bos) or TemplatePart(),
        assistant=_parse_slots(options.get("format_assistant"), bos) or TemplatePart(tokens=int(not efficient)),
        system=_parse_slots(options.get("format_system"), bos) or TemplatePart(),
        prefix=_parse_slots(options.get("format_prefix"), bos) or TemplatePart(),
        default_system=system if isinstance(system, str) else "",
        extra=int(efficient),
        stops=_texts(options.get("stop_words")),
    )


def _constant(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _texts(node: ast.expr | None) -> tuple[str, ...]:
    items = node.elts if isinstance(node, ast.List) else []
    return tuple(item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str))


def _parse_slots(node: ast.expr | None, bos: bool) -> TemplatePart | None:
    """A formatter's slots: text, `{"token": "<|x|>"}`, or `{"eos_token"}`."""
    slots = [k.value for k in node.keywords if k.arg == "slots"] if isinstance(node, ast.Call) else []
    if not slots or not isinstance(slots[0], ast.List):
        return None
    text, tokens = "", 0
    for slot in slots[0].elts:
        match slot:
            case ast.Constant(value=str(said)) | ast.Dict(values=[ast.Constant(value=str(said))]):
                text += said
            case ast.Set(elts=[ast.Constant(value=str(said))]):
                tokens += said == "eos_token" or (bos and said == "bos_token")
    before, _, after = text.partition(CONTENT)
    return TemplatePart(before, after, tokens)
