"""A transcript for people: every call of a model and of a tool, as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tuneloop.core.model_call import Begun, Ended, Line, Message, ModelCall, ToolUse

LONGEST = 4000


def markdown(title: str, experiment: int, lines: Iterable[Line]) -> str:
    """The whole conversation, in order."""
    return (
        "\n\n".join((f"# Experiment {experiment}: {title}", *(part for line in lines for part in _line(line)))) + "\n"
    )


def _line(line: Line) -> Iterator[str]:
    match line:
        case Begun():
            yield f"{line.agent} ({line.planner}) is asked for a {line.want}."
        case ModelCall():
            yield from _call(line)
        case ToolUse():
            said = line.result if line.error is None else f"Error: {line.error}"
            yield f"**{line.name}** {_short(json.dumps(line.arguments, ensure_ascii=False))}"
            yield _fenced(said if isinstance(said, str) else json.dumps(said, ensure_ascii=False, indent=1))
        case Ended():
            yield f"## Answer of {line.by}" if line.answer is not None else f"## No answer: {line.error}"
            if line.answer is not None:
                yield _answer(line.answer)


def _call(call: ModelCall) -> Iterator[str]:
    for message in call.messages:
        if message.role in ("system", "user"):
            yield f"## {message.role}\n\n{_fenced(message.text)}"
    t = call.tokens
    cost = "" if call.cost is None else f", cost {call.cost:.4f}"
    took = f"{t.into} tokens in ({t.cached} cached), {t.out} out, {call.seconds:.1f} s{cost}"
    if call.reply is None:
        yield f"## {call.model} failed ({took})\n\n{_fenced(call.error)}"
        return
    yield f"## {call.model} ({took})"
    yield from _reply(call.reply)


def _reply(reply: Message) -> Iterator[str]:
    if reply.text.strip() or reply.refused:
        yield _fenced(reply.refused or reply.text)
    for ask in reply.asks:
        yield f"wants **{ask.name}** {_short(ask.broken or json.dumps(ask.arguments, ensure_ascii=False))}"


def _answer(answer: dict[str, Any]) -> str:
    long = {name: value for name, value in answer.items() if isinstance(value, str) and "\n" in value}
    short = {name: value for name, value in answer.items() if name not in long}
    return "\n\n".join(
        (_fenced(json.dumps(short, ensure_ascii=False, indent=1)), *(f"{n}:\n\n{_fenced(v)}" for n, v in long.items()))
    )


def _short(text: str) -> str:
    return f"`{text[:200].replace('`', chr(39))}{'…' if len(text) > 200 else ''}`"


def _fenced(text: str) -> str:
    """Behind a fence that nothing in the text can close; of long texts beginning and end."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}\n… {len(text) - LONGEST} letters …\n{text[-LONGEST // 2 :]}"
    mark = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{mark}\n{text}\n{mark}"
